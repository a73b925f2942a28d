package sdktest

import (
	"embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed opencomputer
var openComputer embed.FS

// TestOpenComputer has OpenComputer's SDK make a sandbox, and use it. The mock agent stands for
// Claude Code, the one agent that the SDK knows.
func TestOpenComputer(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server has agent sessions only")
	}
	testx11.Require(t, "node", "npm", "bash")
	modules, err := installFrom(t.Context(), openComputer, "opencomputer")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	launchMock(t, home, "claude")
	server := startServer(t, modules, Config{Home: home})
	runScriptsIn(t, server, scriptsOf(t, openComputer, "opencomputer", modules), "opencomputer.test.mjs")
}

// scriptsOf returns a directory with the files of a folder beside the installed packages.
func scriptsOf(t *testing.T, folder embed.FS, name, modules string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := folder.ReadDir(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := folder.ReadFile(name + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name()), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}
