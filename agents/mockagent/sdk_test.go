package mockagent_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPublishedSDK runs the client of the published SDK against the agent, and checks the
// agent's messages with the SDK's schemas.
func TestPublishedSDK(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "node", "npm")
	modules, err := sdktest.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/client.mjs", modules, self)
	cmd.Env = append(os.Environ(), playVariable+"=agent", "MOCKAGENT_TEST_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "ok ") {
		t.Fatalf("%v: %s", err, out)
	}
}
