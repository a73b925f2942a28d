package supervise

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startOwner runs a program that has a group with a family.
func startOwner(t *testing.T, dir string) (*exec.Cmd, family) {
	t.Helper()
	cmd, line := startRole(t, "owner", "SUPERVISE_TEST_DIR="+dir)
	return cmd, parseFamily(t, line)
}

func TestSweepAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, f := startOwner(t, dir)
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Fatalf("Sweep while the owner runs: %d, %v", n, err)
	}
	wantAlive(t, f.all()...)
	token := recordIn(t, dir).Token

	// These processes resemble the owner's, but none of them belongs to its group.
	alike := []int{
		foreign(t, GroupVariable+"="+token[:31]+"x"),
		foreign(t, GroupVariable+"=x"+token+".1"),
		foreign(t, GroupVariable+"="+token+"0.1"),
		foreign(t, GroupVariable+"_="+token+".1"),
		foreign(t, "X="+GroupVariable+"="+token+".1"),
		foreign(t, GroupVariable+"="+newToken()+".1"),
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := poll(time.Minute, func() error {
		if alive(f.shell) {
			return errors.New("the direct child outlives the owner")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	wantAlive(t, f.child, f.daemon)

	n, err := Sweep(dir, nil)
	if n != 2 || err != nil {
		t.Errorf("Sweep: %d, %v, want 2", n, err)
	}
	wantGone(t, f.all()...)
	wantAlive(t, alike...)
	if n := countRecords(t, dir); n != 0 {
		t.Errorf("%d records after the sweep", n)
	}
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Errorf("second Sweep: %d, %v", n, err)
	}
}

func recordIn(t *testing.T, dir string) record {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("records: %v, %v, want one", entries, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// leave writes the record of a dead program.
func leave(t *testing.T, dir string, r record) string {
	t.Helper()
	rf, err := writeRecord(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := rf.close(false); err != nil {
		t.Fatal(err)
	}
	return rf.path
}

func TestSweepSparesOlderProcesses(t *testing.T) {
	t.Parallel()
	dir, token := t.TempDir(), newToken()
	older := foreign(t, GroupVariable+"="+token+".1")
	p, err := readProcess(older)
	if err != nil {
		t.Fatal(err)
	}
	leave(t, dir, record{Token: token, Boot: bootID(), Since: p.start + 1})
	leave(t, dir, record{Token: newToken(), Boot: bootID(), Since: 1})
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Errorf("Sweep: %d, %v", n, err)
	}
	wantAlive(t, older)

	leave(t, dir, record{Token: token, Boot: "another boot", Since: p.start})
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Errorf("Sweep after another boot: %d, %v", n, err)
	}
	wantAlive(t, older)

	leave(t, dir, record{Token: token, Boot: bootID(), Since: p.start})
	if n, err := Sweep(dir, nil); n != 1 || err != nil {
		t.Errorf("Sweep: %d, %v, want 1", n, err)
	}
	wantGone(t, older)
}

func TestSweepSparesOwnProcesses(t *testing.T) {
	t.Parallel()
	// As if a process that a dead program left had started this program.
	dir, dead := t.TempDir(), newToken()
	since, err := ticks()
	if err != nil {
		t.Fatal(err)
	}
	g := newTestGroup(t, GroupConfig{})
	g.lineage = dead + ".1,"
	_, out := shell(t, g, familyScript)
	f := parseFamily(t, out.await(t, "family"))
	if l := lineageOf(f.daemon); !(tag{text: dead}).in(l) || !(tag{text: g.token}).in(l) {
		t.Fatalf("lineage %q", l)
	}
	leave(t, dir, record{Token: dead, Boot: bootID(), Since: since})
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Errorf("Sweep: %d, %v", n, err)
	}
	wantAlive(t, f.all()...)
}

func TestSweepOddDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if n, err := Sweep(filepath.Join(dir, "none"), nil); n != 0 || err != nil {
		t.Errorf("no directory: %d, %v", n, err)
	}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	there := func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	}
	unrelated := write("notes.group", "{}", 0o600)
	empty := write(newToken()+recordSuffix, "", 0o600)
	token := newToken()
	other := write(newToken()+recordSuffix, `{"token":"`+token+`","since":0}`, 0o600)
	victim := foreign(t, GroupVariable+"="+token+".1")
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Errorf("odd records: %d, %v", n, err)
	}
	if !there(unrelated) || there(empty) || there(other) {
		t.Errorf("left: unrelated %v, empty %v, misnamed %v, want only the first", there(unrelated), there(empty), there(other))
	}
	open := write(token+recordSuffix, `{"token":"`+token+`","since":0,"boot":"`+bootID()+`"}`, 0o666)
	link := filepath.Join(dir, newToken()+recordSuffix)
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	if n, err := Sweep(dir, nil); n != 0 || err == nil || !strings.Contains(err.Error(), "other users may have written it") {
		t.Errorf("a record that others can write: %d, %v", n, err)
	}
	wantAlive(t, victim)
}

// A sweep that runs while groups start removes none of their records: a record is locked
// before Sweep can read it.
func TestSweepDuringNewGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := make(chan struct{})
	swept := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				swept <- nil
				return
			default:
			}
			if _, err := Sweep(dir, nil); err != nil {
				swept <- err
				return
			}
		}
	}()
	for range 100 {
		g, err := NewGroup(GroupConfig{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.writeRecord(); err != nil {
			t.Fatal(err)
		}
		if !g.record.current() {
			t.Fatal("the record of a living group was swept")
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-swept; err != nil {
		t.Error(err)
	}
}

// Process ids are reused: openTarget refuses a process that is not the one that was seen.
func TestOpenTargetChecksIdentity(t *testing.T) {
	t.Parallel()
	token := newToken()
	pid := foreign(t, GroupVariable+"="+token+".1")
	all, _, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	r := &roundup{tags: []tag{{text: token}}, found: map[int]*target{}}
	q := r.openTarget(all[pid], all)
	if q == nil {
		t.Fatal("no target for a member")
	}
	q.close()
	seen := all[pid]
	seen.start--
	if q := r.openTarget(seen, all); q != nil {
		t.Error("a target for a process that is not the one that was seen")
	}
	// Without pidfds, the signal makes the check.
	(&target{process: seen, fd: -1}).signal(unix.SIGKILL)
	wantAlive(t, pid)
	(&target{process: all[pid], fd: -1}).signal(unix.SIGKILL)
	if err := poll(time.Minute, func() error {
		if alive(pid) {
			return errors.New("the signal was not sent")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestLeftover(t *testing.T) {
	t.Parallel()
	r := &roundup{found: map[int]*target{30: {}, 4: {}}}
	if got := r.leftover().Error(); got != "still running after SIGKILL: 4, 30" {
		t.Error(got)
	}
}
