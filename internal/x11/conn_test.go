package x11_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

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

// A program that is not the X server does not get the cookie.
func TestDialImpostor(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	_, err := x11.Dial(t.Context(), x11.Config{Display: s.Display, Cookie: s.Cookie, Server: os.Getpid()})
	if err == nil || !strings.Contains(err.Error(), "another program") {
		t.Fatalf("Dial to another process: %v", err)
	}
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
