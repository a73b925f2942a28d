package sdktest

import (
	"embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed browsers
var browsers embed.FS

// TestBrowsers has Playwright and Puppeteer drive the browser of a desktop through a server
// with a token.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server has no browser")
	}
	testx11.Require(t, "node", "npm", "Xvfb", "openbox", "dbus-daemon", "chromium")
	modules, err := installFrom(t.Context(), browsers, "browsers")
	if err != nil {
		t.Fatal(err)
	}
	script, err := browsers.ReadFile("browsers/browsers.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "browsers.test.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	runScriptsIn(t, startServer(t, modules, Config{}), dir, "browsers.test.mjs")
}
