package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCgroupFolders(t *testing.T) {
	t.Parallel()
	const (
		v1     = "33 32 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		hybrid = "43 32 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
	)
	for name, c := range map[string]struct {
		mounts, self string
		want         []string
	}{
		"version 2":        {"24 1 0:21 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", "0::/user.slice/a.scope\n", []string{"/sys/fs/cgroup/user.slice/a.scope"}},
		"both":             {v1 + hybrid, "9:cpu:/x\n0::/\n", []string{"/sys/fs/cgroup/unified"}},
		"version 1":        {v1, "9:cpu:/x\n", nil},
		"mounted nowhere":  {v1, "0::/\n", nil},
		"no version 2":     {hybrid, "9:cpu:/x\n", nil},
		"begins elsewhere": {"1 2 0:3 /docker/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/c1/init\n", []string{"/sys/fs/cgroup/init"}},
		"another part":     {"1 2 0:3 /docker/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/c10\n", nil},
		"other namespace":  {"1 2 0:3 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/\n", nil},
		"outside":          {hybrid, "0::/../b\n", nil},
		"escapes":          {`1 2 0:3 /a\134b /m\040n\011o rw - cgroup2 cgroup2 rw` + "\n", "0::/a\\b/c d\n", []string{"/m n\to/c d"}},
		"several":          {hybrid + "50 1 0:38 / /mnt/c rw - cgroup2 none rw\n", "0::/x\n", []string{"/sys/fs/cgroup/unified/x", "/mnt/c/x"}},
		"cut off":          {"1 2 0:3 / - cgroup2\n", "0::/\n", nil},
	} {
		if got := cgroupFolders(parseMounts(c.mounts), c.self); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestControllerFolders finds groups below a mount whose path has a blank.
func TestControllerFolders(t *testing.T) {
	t.Parallel()
	mount := filepath.Join(t.TempDir(), "a group")
	group := filepath.Join(mount, "own")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{mount, group} {
		if err := os.WriteFile(filepath.Join(dir, "pids.current"), []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	escaped := strings.ReplaceAll(mount, " ", `\040`)
	for mounts, groups := range map[string]string{
		"30 24 0:26 / " + escaped + " rw,nosuid - cgroup2 cgroup rw\n":     "0::/own\n",
		"31 24 0:27 / " + escaped + " rw,nosuid - cgroup cgroup rw,pids\n": "4:cpu:/\n3:pids:/own\n",
		"32 24 0:28 /in " + escaped + " rw,nosuid - cgroup2 cgroup rw\n":   "0::/in/own\n",
	} {
		if got := controllerFolders(parseMounts(mounts), groups, "pids"); !slices.Equal(got, []string{group, mount}) {
			t.Errorf("%s: %q", mounts, got)
		}
	}
}
