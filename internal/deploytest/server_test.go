package deploytest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

// builds is a directory for what the tests build.
var builds string

func TestMain(m *testing.M) {
	var err error
	if builds, err = os.MkdirTemp("", "deskhand-deploytest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(builds)
		os.Exit(status)
	}))
}

// slow skips a test that make test has no time for.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("DESKHAND_DEPLOY") == "" {
		t.Skip("runs with DESKHAND_DEPLOY=1, as make test-deploy does")
	}
}

var binary = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(binaryVariable); built != "" {
		return built, nil
	}
	path := filepath.Join(builds, "deskhand")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "github.com/deskhand/deskhand/cmd/deskhand")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return path, nil
})

// deskhand returns the path of the program.
func deskhand(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// output keeps what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// daemon is a program that runs until the test ends.
type daemon struct {
	*output
	done chan struct{} // closed when the program has ended
}

// start runs a program until the test ends, which sends it SIGTERM.
func start(t *testing.T, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{new(output), make(chan struct{})}
	cmd.Stdout, cmd.Stderr = d, d
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(d.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-d.done
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(cmd.Path), d)
		}
	})
	return d
}

// ended reports whether the program has ended.
func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for begun := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // polls to a deadline
		if time.Since(begun) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// server is a running deskhand.
type server struct {
	*daemon
	at    string // host and port
	token string
}

var announced = regexp.MustCompile(`ready at http://\S+?:(\d+)[/\s]`)

// serve runs a command line of a guide that begins with deskhand server. The
// flags of the test override the flags of the guide.
func serve(t *testing.T, command string, flags ...string) *server {
	t.Helper()
	s, _ := serveUntil(t, command, flags...)
	return s
}

// serveUntil is like serve. stop ends the server as Kubernetes does, and waits.
func serveUntil(t *testing.T, command string, flags ...string) (s *server, stop func()) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	if len(words) < 2 || words[0] != "deskhand" || words[1] != "server" {
		t.Fatalf("not the command line of a server: %q", command)
	}
	s = &server{token: rand.Text()}
	args := append(append([]string{}, words[1:]...), "--port", "0", "--access-log")
	cmd := exec.Command(deskhand(t), append(args, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "DESKHAND_TOKEN="+s.token)
	s.daemon = start(t, cmd)
	until(t, "the server is ready", func() bool {
		if s.ended() {
			t.Fatalf("the server ended:\n%s", s)
		}
		m := announced.FindStringSubmatch(s.String())
		if m == nil {
			return false
		}
		s.at = net.JoinHostPort("127.0.0.1", m[1])
		return true
	})
	return s, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-s.done
	}
}

// direct is the way to the server without a proxy.
func (s *server) direct() *client {
	return newClient(&url.URL{Scheme: "http", Host: s.at}, s.token)
}
