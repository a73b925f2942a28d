package x11_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

func TestMain(m *testing.M) {
	if os.Getenv(outsideEnv) != "" {
		if err := printOutside(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestDial(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	c := s.Dial(t)
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal("second Close:", err)
	}
	if err := c.Sync(); err == nil {
		t.Error("Sync after Close succeeded")
	}
}

func TestDialWrongCookie(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	_, err := x11.Dial(t.Context(), x11.Config{Display: s.Display, Cookie: x11.NewCookie()})
	if err == nil || !strings.Contains(err.Error(), s.Display) {
		t.Fatalf("Dial with a wrong cookie: %v, want a refusal that names the display", err)
	}
}

// A program that is not the X server does not get the cookie, also if the number of
// its process is the X server's because that program listened with this number before.
func TestDialImpostor(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	sock, err := net.Dial("unix", "/tmp/.X11-unix/X"+strings.TrimPrefix(s.Display, ":"))
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	raw, err := sock.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var server *unix.Ucred
	control := raw.Control(func(fd uintptr) { server, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(control, err); err != nil {
		t.Fatal(err)
	}
	for what, wanted := range map[string]unix.Ucred{
		"number": {Pid: server.Pid + 1, Uid: server.Uid, Gid: server.Gid},
		"user":   {Pid: server.Pid, Uid: server.Uid + 1, Gid: server.Gid},
		"group":  {Pid: server.Pid, Uid: server.Uid, Gid: server.Gid + 1},
	} {
		c, err := x11.Dial(t.Context(), x11.Config{Display: s.Display, Cookie: s.Cookie, Server: &wanted})
		if err == nil {
			_ = c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "another program") {
			t.Errorf("Dial to a process of another %s: %v", what, err)
		}
	}
	c, err := x11.Dial(t.Context(), x11.Config{Display: s.Display, Cookie: s.Cookie, Server: server})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestDialAuthority(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	c, err := x11.Dial(t.Context(), x11.Config{Display: s.Display, Authority: s.Authority})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestDialNoServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, d := range []string{":32000", "host:1", "7", ":x", ""} {
		if _, err := x11.Dial(ctx, x11.Config{Display: d}); err == nil {
			t.Errorf("Dial(%q) succeeded", d)
		}
	}
}
