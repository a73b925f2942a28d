package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

// The smallest limit counts, of the group or of a group above it. "max" and the
// huge number of version 1 are no limits.
func TestLeastMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mount, self, file string
		above, own        string
		want              int64
	}{
		"version 2":         {"cgroup2 c rw", "0::/own", "memory.max", "max\n", "2000000\n", 2000000},
		"version 2, above":  {"cgroup2 c rw", "0::/own", "memory.max", "1000000\n", "2000000\n", 1000000},
		"version 2, none":   {"cgroup2 c rw", "0::/own", "memory.max", "max\n", "max\n", 5000000},
		"version 2, larger": {"cgroup2 c rw", "0::/own", "memory.max", "max\n", "9000000\n", 5000000},
		"version 1":         {"cgroup c rw,memory", "4:memory:/own", "memory.limit_in_bytes", "9223372036854771712\n", "2000000\n", 2000000},
		"version 1, none":   {"cgroup c rw,memory", "4:memory:/own", "memory.limit_in_bytes", "9223372036854771712\n", "9223372036854771712\n", 5000000},
		"another group":     {"cgroup c rw,cpu", "4:cpu:/own", "memory.limit_in_bytes", "1\n", "1\n", 5000000},
	} {
		mount := t.TempDir()
		own := filepath.Join(mount, "own")
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		for dir, text := range map[string]string{mount: c.above, own: c.own} {
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		groups := controllerFolders(parseMounts("30 24 0:26 / "+mount+" rw - "+c.mount+"\n"), c.self+"\n", "memory")
		if got := leastMemory(5000000, groups); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := MemoryLimit(); got < 1<<20 {
		t.Errorf("this program may use %d bytes", got)
	}
}

// What is left of the smallest limit counts, and files that the kernel can drop are left.
func TestLeftMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, used, stat string
		want              int64
	}{
		"no limit":       {"max\n", "2000000\n", "", 5000000},
		"a limit":        {"3000000\n", "2000000\n", "", 1000000},
		"files":          {"3000000\n", "2000000\n", "anon 1500000\ninactive_file 500000\n", 1500000},
		"above":          {"3000000\n", "4000000\n", "inactive_file 100\n", 0},
		"more than free": {"9000000\n", "2000000\n", "", 5000000},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"memory.max": c.limit, "memory.current": c.used, "memory.stat": c.stat} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := leftMemory(5000000, []string{dir}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := AvailableMemory(); got < 1<<20 || got > MemoryLimit() {
		t.Errorf("%d of %d bytes are available", got, MemoryLimit())
	}
}
