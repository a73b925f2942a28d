package mockagent_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/mockagent"
)

// Old files of sessions are deleted, and no other files in their folder.
func TestOldSessionsGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startAgent(t, mockagent.Config{Dir: dir})
	old, young := c.session("[]"), c.session("[]")
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	const foreign = "mock-notes.jsonl"
	left := "mock-0123456789abcdef.jsonl.new"
	for name, days := range map[string]int{old + ".jsonl": 31, young + ".jsonl": 29, foreign: 365, left: 31} {
		path, at := filepath.Join(dir, name), time.Now().AddDate(0, 0, -days)
		f, err := os.OpenFile(path, os.O_CREATE, 0o600)
		if err == nil {
			err = errors.Join(f.Close(), os.Chtimes(path, at, at))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c = startAgent(t, mockagent.Config{Dir: dir})
	c.must("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp"}`, young), new(struct{}))
	if m := c.call("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp"}`, old)); m.Error == nil {
		t.Errorf("%s is still there: %s", old, m.raw)
	}
	for name, stays := range map[string]bool{old + ".jsonl": false, young + ".jsonl": true, foreign: true, left: false} {
		if _, err := os.Stat(filepath.Join(dir, name)); stays != !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session whose file was deleted while it was open is kept again.
func TestSweptWhileOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startAgent(t, mockagent.Config{Dir: dir})
	id := c.session("[]")
	c.prompt(id, "one")
	if err := os.Remove(filepath.Join(dir, id+".jsonl")); err != nil {
		t.Fatal(err)
	}
	c.prompt(id, "two")
	_ = c.stop()
	c = startAgent(t, mockagent.Config{Dir: dir})
	c.must("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp","mcpServers":[]}`, id), new(struct{}))
	if said := c.said(); !strings.Contains(said, "one") || !strings.Contains(said, "two") {
		t.Errorf("what was said is %q", said)
	}
}
