package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestElements: a desktop has one Tree while it runs, and references are never used again.
func TestElements(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "/usr/libexec/at-spi-bus-launcher", "zenity")
	f := open(t, Config{})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	var state *StateError
	if _, err := in.Elements(t.Context()); !errors.As(err, &state) {
		t.Errorf("before the start: %v", err)
	}
	refs := map[string]bool{}
	for range 2 {
		if err := in.Start(t.Context(), StartOptions{}); err != nil {
			t.Fatal(err)
		}
		tree, err := in.Elements(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := in.Elements(t.Context()); again != tree {
			t.Errorf("the second call returned another Tree, %v", err)
		}
		d, err := in.Desktop()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.(*desktop.Desktop).Launch(t.Context(), desktop.Launch{App: "zenity", Args: []string{"--info"}}); err != nil {
			t.Fatal(err)
		}
		e, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "button", Name: "OK"}})
		if err != nil || refs[e.Ref] {
			t.Errorf("%+v, %v; references before: %v", e, err, refs)
		}
		refs[e.Ref] = true
		if err := in.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Snapshot(t.Context(), accessibility.Query{}); !errors.Is(err, accessibility.ErrClosed) {
			t.Errorf("after the stop: %v", err)
		}
	}
}

// TestStartWithElements: with Elements the accessibility bus runs, and without it nothing of
// it does.
func TestStartWithElements(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "dbus-send", "/usr/libexec/at-spi-bus-launcher")
	f := open(t, Config{})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []bool{false, true} {
		if err := in.Start(t.Context(), StartOptions{Elements: wanted}); err != nil {
			t.Fatal(err)
		}
		d, err := in.Desktop()
		if err != nil {
			t.Fatal(err)
		}
		environ, err := d.(*desktop.Desktop).Environ()
		if err != nil {
			t.Fatal(err)
		}
		ask := exec.CommandContext(t.Context(), "dbus-send", "--session", "--print-reply=literal", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus",
			"org.freedesktop.DBus.NameHasOwner", "string:org.a11y.Bus")
		ask.Env = environ
		owned, err := ask.CombinedOutput()
		if err != nil || strings.TrimSpace(string(owned)) != fmt.Sprint("boolean ", wanted) {
			t.Errorf("Elements %v: a program has the name of the accessibility bus: %s, %v", wanted, owned, err)
		}
		if slices.Contains(environ, "QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1") != wanted {
			t.Errorf("Elements %v: environment %q", wanted, environ)
		}
		if err := in.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoAccessibilityBus: a start with Elements says which package is missing. A session bus
// without services stands for a machine without that package.
func TestNoAccessibilityBus(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	config := filepath.Join(bin, "bus.conf")
	for name, text := range map[string]string{
		config: `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`,
		filepath.Join(bin, "dbus-daemon"): "#!/bin/sh\nshift\nexec " + daemon + " --config-file=" + config + ` "$@"` + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil { //nolint:gosec // a program of the test
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	f := open(t, Config{})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	err = in.Start(t.Context(), StartOptions{Elements: true})
	if !errors.Is(err, accessibility.ErrUnavailable) || !strings.Contains(err.Error(), "install the package at-spi2-core") {
		t.Errorf("start: %v", err)
	}
	if s := in.Status(); s.State != desktop.StateFailed || s.Desktop != nil {
		t.Errorf("afterwards: %+v", s)
	}
	if err := in.Start(t.Context(), StartOptions{}); err != nil {
		t.Errorf("without elements: %v", err)
	}
}

// TestNoElements: desktops of other kinds have no elements.
func TestNoElements(t *testing.T) {
	t.Parallel()
	f := open(t, Config{Start: new(faker).start})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context(), StartOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Elements(t.Context()); !errors.Is(err, ErrNoElements) {
		t.Error(err)
	}
	other, err := f.Create(t.Context(), "other", StartOptions{Elements: true})
	if !errors.Is(err, ErrNoElements) {
		t.Errorf("start with Elements: %v, %v", other, err)
	}
}
