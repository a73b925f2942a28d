package desktop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// compute keeps all processors at work until the test ends.
func compute(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		c := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
}

// TestTypeAfterShortcutOfTk opens a dialog for files of Tk, which answers no pings, on a busy machine,
// and types a path into it immediately.
func TestTypeAfterShortcutOfTk(t *testing.T) {
	testx11.Require(t, "wish")
	d := start(t, desktop.Config{})
	dir := t.TempDir()
	script, out := filepath.Join(dir, "save.tcl"), filepath.Join(dir, "out")
	if err := os.WriteFile(script, []byte(`
wm title . save
bind . <Control-s> {
	set name [tk_getSaveFile]
	set f [open [lindex $argv 0] w]
	puts -nonewline $f $name
	close $f
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "wish", Args: []string{script, out}, Ready: true}); err != nil {
		t.Fatal(err)
	}
	compute(t)
	for range 5 {
		if err := d.Press(t.Context(), desktop.Press{Keys: "ctrl+s"}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "saved")
		if err := d.Type(t.Context(), desktop.Type{Text: path + "\n"}); err != nil {
			t.Fatal(err)
		}
		until(t, "the path", func() bool { b, err := os.ReadFile(out); return err == nil && len(b) > 0 })
		if got := readFile(t, out); got != path {
			t.Fatalf("got %q, want %q", got, path)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
}
