package accessibility_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
	"github.com/deskhand/deskhand/internal/testx11"
)

const launcher = "/usr/libexec/at-spi-bus-launcher"

func TestMain(m *testing.M) {
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon", launcher, "zenity")
	goleak.VerifyTestMain(m)
}

// patient is a query's timeout for busy machines.
const patient = 10 * time.Second

// start runs a desktop with its elements until the test ends.
func start(t testing.TB, cfg desktop.Config) (*desktop.Desktop, *accessibility.Tree) {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", launcher)
	d, err := desktop.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	tree, err := accessibility.Start(t.Context(), accessibility.Config{Desktop: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, tree
}

// launch starts a program and waits for its window.
func launch(t testing.TB, d *desktop.Desktop, app string, args ...string) desktop.App {
	t.Helper()
	testx11.Require(t, app)
	a, err := d.Launch(t.Context(), desktop.Launch{App: app, Args: args, Wait: true})
	if err != nil || a.Exited { // its window may come later on a busy machine
		t.Fatalf("launch %s: %+v, %v", app, a, err)
	}
	return a
}

// until asks for a query's elements until ok accepts them.
func until(t testing.TB, tree *accessibility.Tree, q accessibility.Query, ok func(accessibility.Snapshot) bool) accessibility.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := tree.Snapshot(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if ok(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within 20 s; skipped %+v, elements:\n%s", s.Skipped, s.Outline())
		}
	}
}

// has returns a condition: there is an element with a role and a name.
func has(role, name string) func(accessibility.Snapshot) bool {
	return func(s accessibility.Snapshot) bool { return one(s, role, name) != nil }
}

// one returns the first element with a role and a name, or nil.
func one(s accessibility.Snapshot, role, name string) *accessibility.Element {
	for i, e := range s.Elements {
		if e.Role == role && e.Name == name {
			return &s.Elements[i]
		}
	}
	return nil
}
