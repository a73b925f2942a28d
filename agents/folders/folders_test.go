package folders_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/agents/folders"
)

func open(t *testing.T, cfg folders.Config) *folders.Store {
	t.Helper()
	s, err := folders.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// place writes a folder's file without the store, as another program would.
func place(t *testing.T, dir, kind, text string) {
	t.Helper()
	file := filepath.Join(dir, ".sandbox-agent", "config", kind+".json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func entry(t *testing.T, s *folders.Store, dir string, kind folders.Kind, name string) folders.Entry {
	t.Helper()
	e, err := s.Entry(t.Context(), dir, kind, name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The messages about an untrusted file are bounded in size.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	many := func(n int, name string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%s%d":0`, name, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	s, trusting := open(t, folders.Config{}), open(t, folders.Config{Trust: []string{dir}})
	for _, tt := range []struct{ text, want, trusted string }{
		{many(100, "a"), "", ""},
		{many(101, "a"), "more than 100 entries that are not approved", ""},
		{many(1, strings.Repeat("a", 256)), "more than 256 bytes", ""},
		{many(10_000, ""), "more than 100 entries", ""},
		{many(10_001, ""), "more than 10000 entries", "more than 10000 entries"},
	} {
		place(t, dir, "mcp", tt.text)
		for store, want := range map[*folders.Store]string{s: tt.want, trusting: tt.trusted} {
			_, err := store.Entries(t.Context(), dir, folders.MCP)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%d bytes: %v, want %q", len(tt.text), err, want)
			}
		}
	}
}

// TestApprovalIsOfContent approves random entries and changes one byte of each. An
// entry with content that was not approved must not count.
func TestApprovalIsOfContent(t *testing.T) {
	t.Parallel()
	state, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	s := open(t, folders.Config{StateDir: state})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		content := fmt.Sprintf(`{"command":%q,"args":[%d,"%c"]}`, strings.Repeat("x", r.IntN(5)), r.IntN(1000), 'a'+rune(r.IntN(26)))
		place(t, dir, "mcp", `{"a":`+content+`,"b":`+content+`}`)
		place(t, dir, "skills", `{"a":`+content+`}`)
		place(t, other, "mcp", `{"a":`+content+`}`)
		hash := entry(t, s, dir, folders.MCP, "a").Hash
		if err := s.Approve(t.Context(), dir, folders.MCP, "a", hash); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			dir, name string
			kind      folders.Kind
			want      bool
		}{{dir, "a", folders.MCP, true}, {dir, "b", folders.MCP, false}, {dir, "a", folders.Skills, false}, {other, "a", folders.MCP, false}} {
			if got := entry(t, s, x.dir, x.kind, x.name); got.Approved != x.want {
				t.Fatalf("%d: %+v is approved: %v", i, x, got.Approved)
			}
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(content), "  ", "\t"); err != nil {
			t.Fatal(err)
		}
		place(t, dir, "mcp", `{"a":`+indented.String()+`}`)
		if !entry(t, s, dir, folders.MCP, "a").Approved {
			t.Fatalf("%d: the indented entry is not approved", i)
		}
		changed := []byte(content)
		for at := r.IntN(len(content)); ; at = r.IntN(len(content)) {
			changed[at] ^= 1 << r.IntN(3)
			if json.Valid(changed) && folders.Hash(changed) != hash {
				break
			}
			changed = []byte(content)
		}
		place(t, dir, "mcp", `{"a":`+string(changed)+`}`)
		if entry(t, s, dir, folders.MCP, "a").Approved {
			t.Fatalf("%d: %s was approved, and %s counts", i, content, changed)
		}
		var stale *folders.ChangedError
		if err := s.Approve(t.Context(), dir, folders.MCP, "a", hash); !errors.As(err, &stale) || stale.Hash != folders.Hash(changed) {
			t.Fatalf("%d: Approve with the old hash = %v", i, err)
		}
		if entry(t, s, dir, folders.MCP, "a").Approved {
			t.Fatalf("%d: the entry counts after a failed approval", i)
		}
	}
	if err := s.Approve(t.Context(), dir, folders.MCP, "none", "x"); !errors.Is(err, folders.ErrNotFound) {
		t.Errorf("Approve of a missing entry = %v", err)
	}
}

// An entry that Put has set counts, also for the next Store with the same state directory, until
// another program changes it or it is deleted.
func TestPutCounts(t *testing.T) {
	t.Parallel()
	state, dir := t.TempDir(), filepath.Join(t.TempDir(), "new")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s := open(t, folders.Config{StateDir: state})
	content := json.RawMessage(`{"type":"local","command":"x"}`)
	if err := s.Put(t.Context(), dir, folders.MCP, "a", content); err != nil {
		t.Fatal(err)
	}
	next := open(t, folders.Config{StateDir: state})
	for _, at := range []string{dir, link, dir + "/../new/"} {
		if !entry(t, next, at, folders.MCP, "a").Approved {
			t.Errorf("the entry does not count with the path %s", at)
		}
	}
	if entry(t, open(t, folders.Config{}), dir, folders.MCP, "a").Approved {
		t.Error("the entry counts for a store with another state directory")
	}
	place(t, dir, "mcp", `{"a":{"type":"local","command":"y"}}`)
	if entry(t, s, dir, folders.MCP, "a").Approved {
		t.Error("the entry counts after another program has changed it")
	}
	if err := s.Delete(t.Context(), dir, folders.MCP, "a"); err != nil {
		t.Fatal(err)
	}
	place(t, dir, "mcp", `{"a":`+string(content)+`}`)
	if entry(t, s, dir, folders.MCP, "a").Approved {
		t.Error("the entry counts after it was deleted and another program has written it again")
	}
}

// Trust does not extend to folders whose paths only begin with the same text.
func TestTrust(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, c := range []struct {
		trust, dir string
		want       bool
	}{{"", "a", false}, {"a", "a", true}, {"a", "a/b", true}, {"a", "ab", false}, {"a/b", "a", false}, {"..", "a", true}, {"link", "a/b", true}} {
		if err := os.RemoveAll(filepath.Join(top, "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(top, "a"), filepath.Join(top, "link")); err != nil {
			t.Fatal(err)
		}
		cfg := folders.Config{}
		if c.trust != "" {
			cfg.Trust = []string{filepath.Join(top, c.trust)}
		}
		dir := filepath.Join(top, c.dir)
		place(t, dir, "mcp", `{"a":1}`)
		if got := entry(t, open(t, cfg), dir, folders.MCP, "a"); got.Approved != c.want {
			t.Errorf("%+v: %v", c, got.Approved)
		}
	}
	place(t, top, "mcp", `{"a":1}`)
	if !entry(t, open(t, folders.Config{Trust: []string{"/"}}), top, folders.MCP, "a").Approved {
		t.Error("/ does not trust every folder")
	}
	if _, err := folders.Open(folders.Config{Trust: []string{"relative"}}); err == nil {
		t.Error("a relative folder is accepted")
	}
}

// TestReadersSeeApprovals reads an entry while Put replaces it continuously. The entry always
// counts.
func TestReadersSeeApprovals(t *testing.T) {
	t.Parallel()
	s, dir := open(t, folders.Config{StateDir: t.TempDir()}), t.TempDir()
	put := func(i int) {
		if err := s.Put(t.Context(), dir, folders.MCP, "a", fmt.Appendf(nil, "%d", i)); err != nil {
			t.Error(err)
		}
	}
	put(0)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if e, err := s.Entry(t.Context(), dir, folders.MCP, "a"); err != nil || !e.Approved {
					t.Errorf("Entry = %+v, %v", e, err)
					return
				}
			}
		})
	}
	for i := range 60 {
		put(i)
	}
	cancel()
	readers.Wait()
}
