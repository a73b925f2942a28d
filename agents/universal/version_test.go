package universal_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/universal"
)

// TestVersion fails if the events or states of the logs change and Version does not.
func TestVersion(t *testing.T) {
	t.Parallel()
	const golden = "testdata/version"
	sum := sha256.New()
	files, err := filepath.Glob(logs + "*.jsonl")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		s := universal.NewState("s1")
		for _, e := range entries(t, file) {
			for _, u := range s.Apply(e) {
				text, err := u.JSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				sum.Write(text)
			}
			text, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(text)
		}
	}
	got := fmt.Sprintf("%d %x", universal.Version, sum.Sum(nil))
	text, err := os.ReadFile(golden)
	want := strings.TrimSpace(string(text))
	if *update && strings.Fields(want + " -")[0] != fmt.Sprint(universal.Version) {
		err = os.WriteFile(golden, []byte(got+"\n"), 0o644)
		want = got
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s, not %s: stored states would make other events; raise Version, then run go test -update", got, want)
	}
}

// TestIdle: a state is idle between turns and not within a turn.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := universal.NewState("s1")
	var open, idle int
	for _, e := range entries(t, logs+"mock.jsonl") {
		before := s.Idle()
		for _, u := range s.Apply(e) {
			switch u.Type {
			case universal.TurnStarted:
				open++
				if !before {
					t.Error("something was open before a turn")
				}
			case universal.TurnEnded:
				idle++
				if !s.Idle() {
					t.Error("something is open after a turn")
				}
			}
		}
		if open > idle && s.Idle() {
			t.Errorf("nothing is open within a turn, after entry %d", e.Seq)
		}
	}
	if open == 0 {
		t.Error("there was no turn")
	}
}

// FuzzRestore continues from invalid snapshots.
func FuzzRestore(f *testing.F) {
	s := universal.NewState("s1")
	for _, e := range entries(f, logs+"mock.jsonl") {
		s.Apply(e)
		if text, err := s.Snapshot(); err == nil && e.Seq%5 == 0 {
			f.Add(text)
		}
	}
	f.Add([]byte(`{"version":1,"state":{"order":["x"],"tools":{"x":null}}}`))
	f.Add([]byte(`{"version":1,"state":{"order":["x","x"],"tools":{"x":{},"y":{}},"text":{}}}`))
	rest := entries(f, logs+"others.jsonl")
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		s := universal.Restore(snapshot)
		if s == nil {
			return
		}
		for _, e := range rest {
			for _, u := range s.Apply(e) {
				if _, err := u.JSON(nil); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
