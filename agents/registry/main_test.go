package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRegistry makes a registry whose files and programs are in folders of the test. It has
// no locks, because the tests' packages have other checksums.
func newRegistry(t testing.TB, cfg Config) *Registry {
	t.Helper()
	if cfg.Env == nil {
		cfg.Env = environment(t)
	}
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "agents")
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.locks = fstest.MapFS{}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// environment returns an environment in which PATH has only the system's programs.
func environment(t testing.TB, set ...string) []string {
	t.Helper()
	return append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, set...)
}

// script writes a shell script.
func script(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, "#!/bin/sh\n"+text+"\n", 0o755)
	return path
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// agentScript answers the two requests of Ask.
func agentScript(initialize, session string) string {
	return fmt.Sprintf(`while read -r line; do
case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":%s}' ;;
*'"session/new"'*) echo 'not JSON'; echo '{"jsonrpc":"2.0","id":7,"method":"fs/read","params":{}}'; echo '{"jsonrpc":"2.0","id":1,"result":%s}' ;;
esac
done`, initialize, session)
}

// specOf returns the Spec that starts a command.
func specOf(r *Registry, c Command) supervise.Spec {
	spec, _ := r.asAgent(supervise.Spec{Path: c.Path, Args: c.Args, Env: c.Env})
	return spec
}
