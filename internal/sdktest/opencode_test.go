package sdktest

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed opencode
var openCode embed.FS

// TestOpenCode calls all methods of both clients of OpenCode's SDK, with the mock agent and with
// an agent that has a script. An older version of the SDK has a part of it.
func TestOpenCode(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server answers half of the routes only")
	}
	testx11.Require(t, "node", "npm")
	modules, err := installFrom(t.Context(), openCode, "opencode")
	if err != nil {
		t.Fatal(err)
	}
	dir := scriptsOf(t, openCode, "opencode", modules)
	config := filepath.Join(dir, "agents.json")
	agents := fmt.Sprintf(`{"agents":{"scripted":{"command":["node",%q]},"slow":{"command":["sleep","600"]}}}`, filepath.Join(dir, "agent.mjs"))
	if err := os.WriteFile(config, []byte(agents), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, modules, Config{Args: []string{"--agents-config", config}})
	runScriptsIn(t, server, dir, "opencode.test.mjs", "SDKTEST_CRASH="+crasher(t, server))
}
