package supervise

import (
	"os"
	"testing"
)

func TestReap(t *testing.T) {
	t.Parallel()
	// Another program runs the test, because here the orphans of all tests would be mixed.
	if out, err := role(t, "reaper").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const fields = " S 7 8 9 0 -1 4194560 10 20 30 40 4 5 6 7 20 0 11 0 123456 1 2\n"
	want := process{pid: 5, parent: 7, group: 8, session: 9, threads: 11, start: 123456, cpu: 4 + 5 + 6 + 7, pages: 2, state: 'S'}
	for _, name := range []string{"(sh)", "(a b)", "() S 1 (x)", "(\n)", "()"} {
		if got, ok := parseStat(5, []byte("5 "+name+fields)); !ok || got != want {
			t.Errorf("name %q: %+v, %v", name, got, ok)
		}
	}
	for _, bad := range []string{"", "5 (sh", "5 (sh)", "5 (sh) S 1 2 3", "5 (sh) S x 8 9 0 -1 4194560 10 20 30 40 4 5 6 7 20 0 11 0 123456 1 2", "5 (sh) S 7 8 9 0 -1 4194560 10 20 30 40 4 x 6 7 20 0 11 0 123456 1 2", "5 (sh) S 7 8 9 0 -1 4194560 10 20 30 40 4 5 6 7 20 0 11 0 123456"} {
		if got, ok := parseStat(5, []byte(bad)); ok {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	self, err := readProcess(os.Getpid())
	now, err2 := ticks()
	if err != nil || err2 != nil || self.parent != os.Getppid() || self.start > now || self.start == 0 || self.gone() {
		t.Errorf("this process at %d: %+v, %v, %v", now, self, err, err2)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("5 (sh) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 123456 1 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(1, b); ok && p.pid != 1 {
			t.Errorf("pid %d", p.pid)
		}
		stateOfEnviron(b, len(b))
	})
}
