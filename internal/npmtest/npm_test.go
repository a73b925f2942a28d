package npmtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// version is the one that the tests give the packages.
const version = "v1.2.3-test"

// long is true if the packages of all platforms and the Docker provider are tested.
var long = os.Getenv("DESKHAND_NPM") != ""

// TestPackages builds the packages and runs npm/test on them.
func TestPackages(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "node", "npm", "make", "tar", "script", "Xvfb", "openbox", "dbus-daemon")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	env := []string{"VERSION=" + version, "DIST=" + dist}
	if !long {
		env = append(env, "PLATFORMS="+map[string]string{"amd64": "x64", "arm64": "arm64", "arm": "arm"}[runtime.GOARCH])
	}
	run(t, env, "node", "npm/build.mjs", dist)
	env = append(env, "MODULES="+modules(t, filepath.Join(root, "npm/providers")))
	for _, script := range []string{"cli.test.mjs", "providers.test.mjs", "vendors.test.mjs"} {
		t.Run(script, func(t *testing.T) {
			run(t, env, "node", "--test-reporter=spec", "npm/test/"+script)
		})
	}
	t.Run("docker.test.mjs", func(t *testing.T) {
		if !long {
			t.Skip("only in make test-npm")
		}
		testx11.Require(t, "dockerd", "docker", "debootstrap", "unshare", "ip")
		run(t, env, "npm/test/docker.sh")
	})
}

// modules returns where npm/build.mjs has installed the packages of a folder's
// lock file.
func modules(t *testing.T, folder string) string {
	t.Helper()
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "deskhand", "npm-"+hex.EncodeToString(sum.Sum(nil))[:16], "node_modules")
}

// run runs a program in the module's root folder.
func run(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	group, err := supervise.NewGroup(supervise.GroupConfig{Owner: "system"})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	out := new(lockedBuffer)
	child, err := group.Start(supervise.Spec{Path: program, Args: args, Dir: "../..", Env: supervise.Environ(os.Environ(), env...), Output: out})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		t.Fatalf("%s %v: %v\n%s", program, args, ctx.Err(), out)
	}
	if exit := child.Exit(); exit.Code != 0 {
		t.Fatalf("%s %v: %v\n%s", program, args, exit, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
