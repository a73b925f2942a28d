package sdktest

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// builds is a directory for what the tests build.
var builds string

func TestMain(m *testing.M) {
	var err error
	if builds, err = os.MkdirTemp("", "deskhand-sdktest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(builds)
		os.Exit(status)
	}))
}

//go:embed sdk/*.mjs sdk/*.jsx
var scripts embed.FS

// TestDesktop calls the SDK's desktop methods.
func TestDesktop(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xdg-open", "xterm", "xclip", "xev", "xwininfo", "xkill", "ffmpeg", "ffprobe")
	testScripts(t, "desktop.test.mjs")
}

// TestHost calls its methods of processes, terminals, files and configuration.
func TestHost(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	testScripts(t, "host.test.mjs")
}

// testScripts starts a server and runs one of the test files in sdk/ against
// it.
func testScripts(t *testing.T, name string) {
	t.Helper()
	modules := required(t)
	runScripts(t, startServer(t, modules, Config{}), modules, name)
}

// required returns the packages that the scripts need.
func required(t *testing.T) (modules string) {
	t.Helper()
	testx11.Require(t, "node", "npm")
	modules, err := Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// reference says that the tests are to run against the reference server.
var reference = os.Getenv("SDKTEST_REFERENCE") == "1"

// startServer starts the server under test, until the test ends.
func startServer(t *testing.T, modules string, cfg Config) *Server {
	t.Helper()
	cfg.Reference = reference
	if cfg.Home == "" {
		cfg.Home = t.TempDir()
	}
	if cfg.Reference {
		testx11.Require(t, "xdotool", "import", "convert", "dbus-launch")
		var err error
		if cfg.Binary, err = ReferenceBinary(modules); err != nil {
			t.Fatal(err)
		}
	} else {
		var err error
		if cfg.Binary, err = built(); err != nil {
			t.Fatal(err)
		}
	}
	log := new(testlog.Buffer)
	cfg.Log = log
	server, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server printed:\n%s", log)
		}
	})
	return server
}

// scriptTime is how long a test file may run: an open connection keeps node
// from ending.
const scriptTime = 3 * time.Minute

// copyScripts returns a directory with the files of sdk/ beside the installed
// packages.
func copyScripts(t *testing.T, modules string) string {
	t.Helper()
	dir := t.TempDir()
	sub, err := fs.Sub(scripts, "sdk")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, sub); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runScripts runs a test file of sdk/, with further variables in its
// environment.
func runScripts(t *testing.T, server *Server, modules, name string, more ...string) {
	t.Helper()
	runScriptsIn(t, server, copyScripts(t, modules), name, more...)
}

// runScriptsIn is runScripts for a test file in a directory.
func runScriptsIn(t *testing.T, server *Server, dir, name string, more ...string) {
	t.Helper()
	out := new(testlog.Buffer)
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	err := Run(ctx, supervise.Spec{
		// The flag gives node 20 what later ones have: the class WebSocket.
		Path: "node", Args: []string{"--experimental-websocket", "--test-reporter=spec", name}, Dir: dir, Output: out,
		Env: supervise.Environ(environ(server.Home), append(more,
			"SDKTEST_URL="+server.URL, "SDKTEST_TOKEN="+server.Token, "SDKTEST_HOME="+server.Home,
			"SDKTEST_SCRATCH="+t.TempDir(), "SDKTEST_BINARY="+server.cfg.Binary)...),
	})
	if err != nil {
		t.Errorf("node: %v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	if !reference && strings.Contains(out.String(), "# reference fault") {
		t.Errorf("tests were skipped:\n%s", out)
	}
}

// built is a deskhand built from this tree, once for all tests.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(builds, "deskhand")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "github.com/deskhand/deskhand/cmd/deskhand")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})
