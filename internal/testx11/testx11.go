// Package testx11 starts private X servers for tests.
//
// Start gives a test an Xvfb of its own, whose display number the server
// chooses, so that tests may run in parallel. It ends with the test. Without
// Xvfb on PATH the test is skipped, or fails when REQUIRE_TOOLS is set, as it
// is in continuous integration.
package testx11

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// Server is a running Xvfb.
type Server struct {
	Display   string // ":7"
	Cookie    []byte
	Authority string // path of an Xauthority file that holds Cookie
}

// Env is the environment of a client of this server.
func (s *Server) Env() []string {
	return append(os.Environ(), "DISPLAY="+s.Display, "XAUTHORITY="+s.Authority)
}

// Start runs an Xvfb with a screen of that size until the test ends.
func Start(tb testing.TB, width, height int) *Server {
	tb.Helper()
	Require(tb, "Xvfb")
	s := &Server{Cookie: x11.NewCookie(), Authority: filepath.Join(tb.TempDir(), "xauth")}
	if err := x11.WriteAuthority(s.Authority, -1, s.Cookie); err != nil {
		tb.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", fmt.Sprintf("%dx%dx24", width, height),
		"-auth", s.Authority, "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		tb.Fatalf("start Xvfb: %v", err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		// Xvfb misses a signal that comes just before it waits for events.
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		tb.Fatalf("Xvfb did not tell its display: %v", err)
	}
	line = strings.TrimSpace(line)
	s.Display = ":" + line
	number, err := strconv.Atoi(line)
	if err == nil {
		err = x11.WriteAuthority(s.Authority, number, s.Cookie)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Dial connects to the server until the test ends.
func (s *Server) Dial(tb testing.TB) *x11.Conn {
	tb.Helper()
	c, err := x11.Dial(tb.Context(), x11.Config{Display: s.Display, Cookie: s.Cookie})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Require skips the test when a program is missing, or fails it when
// REQUIRE_TOOLS is set.
func Require(tb testing.TB, programs ...string) {
	tb.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("REQUIRE_TOOLS") != "" {
				tb.Fatalf("%s is missing: make test installs it", p)
			}
			tb.Skipf("%s is missing", p)
		}
	}
}

// SkipExamples skips the examples of a package when a program is missing, unless
// REQUIRE_TOOLS is set. TestMain calls it, since an example cannot skip itself.
func SkipExamples(programs ...string) {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil && os.Getenv("REQUIRE_TOOLS") == "" {
			_ = flag.Set("test.skip", "^Example")
		}
	}
}

// Stays says whether an X server that was started again has the display that it
// had, or had to leave it to another one.
func Stays(before, after string) bool {
	if before == after {
		return true
	}
	_, err := os.Stat("/tmp/.X11-unix/X" + strings.TrimPrefix(before, ":"))
	return err == nil
}
