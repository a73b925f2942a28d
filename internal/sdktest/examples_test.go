package sdktest

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/fakellm"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// mostLines bounds the examples, so that a newcomer reads each at a glance.
const mostLines = 40

// TestExamples runs the programs in examples/ with a scripted model.
func TestExamples(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server has no adapters")
	}
	testx11.Require(t, "node", "npm", "python3", "Xvfb", "openbox", "dbus-daemon")
	modules, err := installFrom(t.Context(), adapters, "adapters")
	if err != nil {
		t.Fatal(err)
	}
	server := startServer(t, modules, Config{})
	model := new(fakellm.Server)
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	for provider, script := range map[string]string{
		"anthropic": "@call computer {\"action\":\"mouse_move\",\"coordinate\":[300,200]}\n@call computer {\"action\":\"fly\"}\n@say {images} of 2: {result}",
		"openai":    "@call computer {\"type\":\"move\",\"x\":300,\"y\":200}\n@call computer {\"type\":\"wait\"}\n@say {images} of 2.",
		"gemini":    "@call move {\"x\":300,\"y\":200}\n@call fly {}\n@say {images} of 2: {result}",
	} {
		want := map[string]string{"anthropic": `1 of 2: action: there is no "fly"`, "openai": "2 of 2.", "gemini": `there is no function`}[provider]
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../../examples/"+provider)); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"main.go", "main.py", "main.ts"} {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if n := strings.Count(string(text), "\n"); err != nil || n > mostLines {
					t.Errorf("%s has %d lines, %v", name, n, err)
				}
			}
			if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			// Node 20 runs no TypeScript.
			if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			generate(t, dir, filepath.Join(modules, ".bin", "tsc"), "main.ts", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler")
			compiled := filepath.Join(dir, "main")
			if err := Run(t.Context(), supervise.Spec{Path: "go", Args: []string{"build", "-trimpath", "-o", compiled, "../../examples/" + provider}, Env: append(os.Environ(), "CGO_ENABLED=0")}); err != nil {
				t.Fatal(err)
			}
			for _, command := range [][]string{{"node", "main.js"}, {"python3", "main.py"}, {compiled}} {
				out := new(testlog.Buffer)
				ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
				err := Run(ctx, supervise.Spec{
					Path: command[0], Args: append(command[1:], script), Dir: dir, Output: out,
					Env: supervise.Environ(os.Environ(),
						"DESKHAND_URL="+server.URL, "DESKHAND_TOKEN="+server.Token,
						"ANTHROPIC_API_KEY=x", "ANTHROPIC_BASE_URL="+web.URL, "OPENAI_API_KEY=x", "OPENAI_BASE_URL="+web.URL+"/v1",
						"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL="+web.URL, "GOOGLE_API_KEY", "HOME="+t.TempDir()),
				})
				cancel()
				if err != nil || !strings.Contains(out.String(), want) {
					t.Errorf("%v: %v\nit printed: %s", command, err, out)
				}
			}
		})
	}
}
