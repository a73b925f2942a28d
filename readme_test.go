package deskhand_test

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestReadmeConsole runs what the README tells a newcomer to run, on the
// desktop that make run shows, or that the server at DESKHAND_TEST_SERVER shows, and compares what it says to what comes. Numbers
// may differ: sizes, and the ids of windows.
func TestReadmeConsole(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "chromium", "curl")
	dir := t.TempDir()
	base, token := startDemo(t, dir)
	block := regexp.MustCompile("(?s)```console\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	if block == nil {
		t.Fatal("README.md shows no session")
	}
	script, want := session(block[1])
	script = strings.NewReplacer("http://127.0.0.1:2468", base, "THE-TOKEN", token).Replace(script)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\nin:\n%s", err, cmd.Stderr, script)
	}
	numbers := regexp.MustCompile(`\d+`)
	if got := lines(numbers.ReplaceAllString(string(out), "N")); got != lines(numbers.ReplaceAllString(want, "N")) {
		t.Errorf("the session printed:\n%s\nREADME.md says:\n%s", out, want)
	}
	picture, err := os.Open(filepath.Join(dir, "desk.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	if img, err := png.Decode(picture); err != nil || img.Bounds().Dx() != 1440 || img.Bounds().Dy() != 900 {
		t.Errorf("desk.png: %v", err)
	}
}

// session takes a shown session apart.
func session(text string) (commands, output string) {
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands += strings.TrimSuffix(command, "\n") + "\necho\n"
		} else {
			output += line
		}
	}
	return commands, output
}

// lines is a text without its empty lines.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return b.String()
}

// startDemo runs the command that make run runs, until the test ends, and
// returns where it is.
func startDemo(t *testing.T, dir string) (base, token string) {
	t.Helper()
	if m := announced.FindStringSubmatch(os.Getenv("DESKHAND_TEST_SERVER") + "\n"); m != nil {
		return m[1], m[2]
	}
	binary := filepath.Join(dir, "deskhand")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/deskhand")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out := &announcement{ready: make(chan struct{})}
	cmd := exec.Command(binary, "server", "--demo", "--port", "0")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "HOME="+t.TempDir(), "DESKHAND_TOKEN=", "SANDBOX_AGENT_TOKEN=")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var err error
	go func() { err = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if <-ended; err != nil {
			t.Errorf("the server ended with %v:\n%s", err, out.String())
		}
	})
	select {
	case <-out.ready:
	case <-ended:
		t.FailNow()
	case <-time.After(time.Minute):
		t.Fatalf("the server did not become ready:\n%s", out.String())
	}
	m := announced.FindStringSubmatch(out.String())
	return m[1], m[2]
}

var announced = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/\?token=(\S+)\n`)

// announcement is what a server prints; ready is closed when its URL is there.
type announcement struct {
	mu    sync.Mutex
	text  bytes.Buffer
	told  bool
	ready chan struct{}
}

func (a *announcement) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.text.Write(p)
	if !a.told && announced.Match(a.text.Bytes()) {
		a.told = true
		close(a.ready)
	}
	return n, err
}

func (a *announcement) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}
