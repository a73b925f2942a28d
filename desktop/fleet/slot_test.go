package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestStopWithCallers: a desktop stops, and StopBrowser returns, as fast with many callers that wait
// for a browser or an accessibility bus which does not answer as with one.
func TestStopWithCallers(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	const callers = 6
	const limit = 25 * time.Second // a start by one caller after the other takes longer
	f := open(t, Config{})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context(), StartOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	began, program := filepath.Join(dir, "began"), filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho >> "+began+"\nexec sleep 1000\n"), 0o755); err != nil { //nolint:gosec // a program of the test
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	start := func() {
		for range callers {
			calls.Go(func() {
				if _, _, err := in.StartBrowser(t.Context(), browser.Config{Program: program}); err == nil {
					t.Error("a program that does not answer is a browser")
				}
			})
		}
		until(t, "the browser starts", func() bool {
			_, err := os.Stat(began)
			return err == nil
		})
	}
	stopped := func(name string, stop func(context.Context) error) {
		t.Helper()
		begun := time.Now()
		err := stop(t.Context())
		if took := time.Since(begun); err != nil || took > limit {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
	start()
	stopped("StopBrowser", in.StopBrowser)
	calls.Wait()
	if err := os.Remove(began); err != nil {
		t.Fatal(err)
	}
	start()
	hangBus(t, in)
	for range callers {
		calls.Go(func() {
			if _, err := in.Elements(t.Context()); err == nil {
				t.Error("a bus that does not answer has elements")
			}
		})
	}
	until(t, "the bus is asked", func() bool { return len(in.elements.held) > 0 })
	stopped("Stop", in.Stop)
}

// hangBus stops the process of a desktop's session bus.
func hangBus(t *testing.T, in *Instance) {
	t.Helper()
	d, err := in.Desktop()
	if err != nil {
		t.Fatal(err)
	}
	environ, err := d.(*desktop.Desktop).Environ() //nolint:forcetypeassert // it is one
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range environ {
		dir, ok := strings.CutPrefix(kv, "XDG_RUNTIME_DIR=")
		for _, path := range all {
			line, _ := os.ReadFile(path) // the process may have ended
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if !ok || err != nil || !strings.Contains(string(line), "path="+dir+"/bus") {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the desktop has no session bus")
}
