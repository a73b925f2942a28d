package httpapi

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/httpapi/internal/files"
)

// awaitFile returns the next event of that type and path.
func awaitFile(t *testing.T, events <-chan sse, typ, path string) files.FileEvent {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before %s of %s", typ, path)
			}
			var f files.FileEvent
			if err := json.Unmarshal([]byte(e.data), &f); err != nil {
				t.Fatalf("data %q: %v", e.data, err)
			}
			if string(f.Type) != e.event {
				t.Errorf("event %s has the type %s", e.event, f.Type)
			}
			if e.event == typ && f.Path == path {
				return f
			}
		case <-timeout:
			t.Fatalf("no %s of %s within a minute", typ, path)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			dir := t.TempDir()
			writeTree(t, dir, "old")
			at := func(name string) string { return filepath.Join(dir, name) }
			events := s.follow(t.Context(), t, fsPath("watch", "path", dir, "recursive", "true", "access_token", s.Token()), nil)
			s.do(t, call{method: "PUT", path: fsPath("file", "path", at("new")), body: "x"}).want(t, 200)
			awaitFile(t, events, "created", at("new"))
			if f := func() files.FileEvent {
				s.do(t, call{method: "POST", path: fsPath("mkdir", "path", at("sub"))}).want(t, 200)
				return awaitFile(t, events, "created", at("sub"))
			}(); !f.Directory {
				t.Errorf("event of a directory: %+v", f)
			}
			writeTree(t, dir, "sub/deep")
			awaitFile(t, events, "created", at("sub/deep"))
			if err := os.WriteFile(at("old"), []byte("changed"), 0o644); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, events, "changed", at("old"))
			if err := os.Rename(at("old"), at("other\xff\n")); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, events, "renamed", at("old"))
			if f := awaitFile(t, events, "created", at("other\uFFFD\n")); f.PathBase64 == "" {
				t.Errorf("event of a name that is not UTF-8: %+v", f)
			}
			if err := os.Remove(at("new")); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, events, "removed", at("new"))
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, events, "removed", dir)
			for range events { // ends
			}
		})
	}
}

func TestWatchRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	s.get(t, fsPath("watch", "path", filepath.Join(dir, "none"))).problem(t, 404, "not_found")
	s.do(t, call{path: fsPath("watch", "path", dir), anon: true}).problem(t, 401, "token_invalid")
	head := s.do(t, call{method: "HEAD", path: fsPath("watch", "path", dir)}).want(t, 200)
	if got := head.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type = %s", got)
	}
}

// TestWatchEndsWithItsReader, and with the server.
func TestWatchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			path := fsPath("watch", "path", t.TempDir(), "access_token", s.Token())
			ctx, cancel := context.WithCancel(t.Context())
			events := s.follow(ctx, t, path, nil)
			eventually(t, "a stream", func() bool { return s.rest.OpenStreams() == 1 })
			cancel()
			for range events { // until it ends
			}
			eventually(t, "end of the stream", func() bool { return s.rest.OpenStreams() == 0 })
			events = s.follow(t.Context(), t, path, nil)
			begun := time.Now()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("Close took %v", took)
			}
			for e := range events {
				if e.event != "error" {
					t.Errorf("event %v", e)
				}
			}
		})
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package a\n\nfunc Hello() {}\n", "sub/b.go": "package b\n// hello, world\n", "sub/c.txt": "HELLO\r\nhello hello\n",
		".hidden/d.go": "hello", "bin": "\x00hello", "n\xff.txt": "h\xffllo hello",
	} {
		writeTree(t, dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// found is the paths, with the numbers and columns of lines.
	found := func(q ...string) []string {
		a := s.get(t, fsPath("search", append(q, "path", dir)...)).want(t, 200)
		var body files.SearchBody
		if err := json.Unmarshal(a.body, &body); err != nil {
			t.Fatal(err)
		}
		all := []string{}
		for _, m := range body.Matches {
			text := strings.TrimPrefix(m.Path, dir+"/")
			for _, l := range m.Lines {
				text += " " + l.Text
			}
			all = append(all, text)
		}
		return all
	}
	for _, tc := range []struct {
		query []string
		want  []string
	}{
		{[]string{"glob", "**/*.go"}, []string{"a.go", "sub/b.go"}},
		{[]string{"glob", "*.go"}, []string{"a.go"}},
		{[]string{"glob", "**/*.go", "hidden", "true"}, []string{".hidden/d.go", "a.go", "sub/b.go"}},
		{[]string{"type", "directory"}, []string{"sub"}},
		{[]string{"text", "hello", "glob", "**/*.{go,txt}"}, []string{"n\uFFFD.txt h\uFFFDllo hello", "sub/b.go // hello, world", "sub/c.txt hello hello"}},
		{[]string{"text", "hello", "ignoreCase", "true", "glob", "sub/*"}, []string{"sub/b.go // hello, world", "sub/c.txt HELLO hello hello"}},
		{[]string{"regexp", `func \w+\(`}, []string{"a.go func Hello() {}"}},
		{[]string{"text", "nothing has that"}, []string{}},
	} {
		if diff := cmp.Diff(tc.want, found(tc.query...)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.query, diff)
		}
	}
	a := s.get(t, fsPath("search", "path", dir, "text", "hello", "limit", "1")).want(t, 200).json(t)
	if matches := a["matches"].([]any); len(matches) != 1 || a["truncated"] != true || a["limit"] != "results" {
		t.Errorf("limit 1: %v", a)
	}
	a = s.get(t, fsPath("search", "path", dir, "text", "hello")).want(t, 200).json(t)
	if skipped := a["skipped"].(map[string]any); skipped["binary"] != 1.0 || a["truncated"] != false || a["limit"] != nil {
		t.Errorf("whole: %v", a)
	}
	line := a["matches"].([]any)[1].(map[string]any)
	want := map[string]any{"number": 2.0, "column": 4.0, "text": "// hello, world"}
	if diff := cmp.Diff(want, line["lines"].([]any)[0]); diff != "" || line["entryType"] != "file" || line["name"] != "b.go" {
		t.Errorf("match %v, line (-want +got):\n%s", line, diff)
	}
}

func TestSearchRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	writeTree(t, dir, "file")
	for name, tc := range map[string]struct {
		query  []string
		status int
		code   string
		detail string
	}{
		"no directory": {[]string{"path", dir + "/none"}, 404, "not_found", "none"},
		"a file":       {[]string{"path", dir + "/file"}, 400, "invalid_request", "not a directory"},
		"bad regexp":   {[]string{"path", dir, "regexp", "("}, 400, "invalid_request", "regexp: "},
		"bad glob":     {[]string{"path", dir, "glob", "["}, 400, "invalid_request", "glob: "},
		"both":         {[]string{"path", dir, "text", "a", "regexp", "b"}, 400, "invalid_request", "regexp: "},
		"type":         {[]string{"path", dir, "type", "link"}, 400, "invalid_request", "type"},
		"limit":        {[]string{"path", dir, "limit", "1000000"}, 400, "invalid_request", "limit"},
	} {
		p := s.get(t, fsPath("search", tc.query...)).problem(t, tc.status, tc.code)
		if detail := p["detail"].(string); !strings.Contains(detail, tc.detail) {
			t.Errorf("%s: detail = %q, want it to have %q", name, detail, tc.detail)
		}
	}
}
