package desktop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testspace"
)

// TestNoExec launches a browser on a desktop whose directory is mounted noexec, so that
// no wrapper can add the flag that the browser needs.
func TestNoExec(t *testing.T) { //nolint:paralleltest // it sets a variable
	if os.Geteuid() != 0 {
		t.Skip("only root's browser is known to need a flag")
	}
	disk := testspace.Disk(t, "8m")
	if disk == "" {
		return // the test has run
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	bin, arguments := t.TempDir(), filepath.Join(t.TempDir(), "arguments")
	script := "#!/bin/sh\necho \"$@\" >" + arguments + ".new && mv " + arguments + ".new " + arguments + "\n"
	if err := os.WriteFile(filepath.Join(bin, "chromium"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d := start(t, desktop.Config{StateDir: disk})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "chromium", Args: []string{"page"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the browser has run", func() bool {
		_, err := os.Stat(arguments)
		return err == nil
	})
	if got := readFile(t, arguments); !strings.HasPrefix(got, "--no-sandbox ") || !strings.Contains(got, " --password-store=basic ") || !strings.HasSuffix(got, " page\n") {
		t.Errorf("arguments %q, want --no-sandbox first, --password-store=basic, and page last", got)
	}
}
