package registry

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testspace"
)

// TestInstallNoExec installs to a file system that is mounted noexec.
func TestInstallNoExec(t *testing.T) {
	t.Parallel()
	disk := testspace.Disk(t, "1m")
	if disk == "" {
		return // the test has run
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, Config{Dir: disk})
	_, err := r.Install(t.Context(), "codex", InstallOptions{})
	checkInstallError(t, "noexec", err, StageResolve, "", disk, "noexec", "XDG_DATA_HOME", "--tmpfs DIR:exec")
}
