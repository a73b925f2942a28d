package filesystem_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/filesystem"
)

func search(tb testing.TB, f *filesystem.FS, dir string, options filesystem.SearchOptions) filesystem.SearchResult {
	tb.Helper()
	result, err := f.Search(tb.Context(), dir, options)
	if err != nil {
		tb.Fatalf("Search(%+v): %v", options, err)
	}
	return result
}

// found returns the matches as text: the path below the directory, and for each line its
// number, column and text.
func found(dir string, result filesystem.SearchResult) []string {
	var all []string
	for _, m := range result.Matches {
		rel := strings.TrimPrefix(m.Entry.Path, dir+"/")
		if m.Entry.Type == filesystem.TypeDirectory {
			rel += "/"
		}
		if m.Lines == nil {
			all = append(all, rel)
		}
		for _, l := range m.Lines {
			all = append(all, fmt.Sprintf("%s:%d:%d:%s", rel, l.Number, l.Column, l.Text))
		}
	}
	return all
}

func wantFound(tb testing.TB, dir string, result filesystem.SearchResult, want ...string) {
	tb.Helper()
	if diff := cmp.Diff(want, found(dir, result)); diff != "" {
		tb.Errorf("found:\n%s", diff)
	}
}

func TestSearchNames(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		outside := realTempDir(t)
		for _, name := range []string{
			"a.go", "a/b.go", "a/b/c.go", "a/b/c.txt", "a.b/x.go", ".hidden/h.go", ".env", "a/.env", "new\nline.go", "bad\xff.go",
			"a[1].go", "src/main.go", ".deskhand-X.tmp/x.go",
		} {
			put(t, filepath.Join(dir, name), name)
		}
		put(t, filepath.Join(outside, "out.go"), "out")
		symlink(t, outside, filepath.Join(dir, "outside"))
		symlink(t, "a", filepath.Join(dir, "linked"))
		must(t, syscall.Mkfifo(filepath.Join(dir, "fifo.go"), 0o600))
		for _, test := range []struct {
			options filesystem.SearchOptions
			want    []string
		}{
			{filesystem.SearchOptions{Glob: "*.go"}, []string{"a.go", "a[1].go", "bad\xff.go", "fifo.go", "new\nline.go"}},
			{filesystem.SearchOptions{Glob: "./*.go", MaxDepth: 1}, []string{"a.go", "a[1].go", "bad\xff.go", "fifo.go", "new\nline.go"}},
			{filesystem.SearchOptions{Glob: "a/**/*.go"}, []string{"a/b/c.go", "a/b.go"}},
			{filesystem.SearchOptions{Glob: "**/c.*"}, []string{"a/b/c.go", "a/b/c.txt"}},
			{filesystem.SearchOptions{Glob: "a/**"}, []string{"a/", "a/b/", "a/b/c.go", "a/b/c.txt", "a/b.go"}},
			{filesystem.SearchOptions{Glob: "a/**", Type: filesystem.TypeDirectory}, []string{"a/", "a/b/"}},
			{filesystem.SearchOptions{Glob: "a/**", MaxDepth: 2, Type: filesystem.TypeFile}, []string{"a/b.go"}},
			{filesystem.SearchOptions{Glob: "a/**", Hidden: true, MaxDepth: 2}, []string{"a/", "a/.env", "a/b/", "a/b.go"}},
			{filesystem.SearchOptions{Glob: "**/.env"}, []string{".env", "a/.env"}},
			{filesystem.SearchOptions{Glob: ".hidden/*"}, []string{".hidden/h.go"}},
			{filesystem.SearchOptions{Glob: "{a,src}/*.{go,txt}"}, []string{"a/b.go", "src/main.go"}},
			{filesystem.SearchOptions{Glob: `a\[1\].go`}, []string{"a[1].go"}},
			{filesystem.SearchOptions{Glob: "linked/*"}, nil},
			{filesystem.SearchOptions{Glob: "outside/**"}, nil},
			{filesystem.SearchOptions{Glob: "missing/*"}, nil},
			{filesystem.SearchOptions{Glob: "a/b/c.go"}, []string{"a/b/c.go"}},
			{filesystem.SearchOptions{Glob: "{linked,outside}"}, []string{"linked", "outside"}},
			{filesystem.SearchOptions{MaxDepth: 1, Type: filesystem.TypeDirectory}, []string{"a/", "a.b/", "src/"}},
		} {
			result := search(t, f, dir, test.options)
			if diff := cmp.Diff(test.want, found(dir, result)); diff != "" {
				t.Errorf("%+v:\n%s", test.options, diff)
			}
			if result.Truncated || result.Unreadable != 0 {
				t.Errorf("%+v: %+v", test.options, result)
			}
		}
		if r := search(t, f, dir, filesystem.SearchOptions{Glob: "linked"}); r.Matches[0].Entry.Target != "a" || !r.Matches[0].Entry.Link {
			t.Errorf("link: %+v", r.Matches[0].Entry)
		}
		_, err := f.Search(t.Context(), filepath.Join(dir, "a.go"), filesystem.SearchOptions{})
		wantError(t, err, filesystem.ErrNotDirectory)
	})
}

func TestSearchContent(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := realTempDir(t)
	put(t, filepath.Join(dir, "a.txt"), "first\nsecond Word here\r\nthird\n\nword word\nlast WORD")
	put(t, filepath.Join(dir, "b", "utf8.txt"), "漢字 word\nПривет Мир\n")
	put(t, filepath.Join(dir, "b", "latin1.txt"), "gr\xfc\xdfe word\n")
	put(t, filepath.Join(dir, "binary"), "word\x00word\n")
	put(t, filepath.Join(dir, "long"), strings.Repeat("ü", 3000)+"word"+strings.Repeat("ä", 3000)+"\nword\n")
	put(t, filepath.Join(dir, "endless"), strings.Repeat("x", 200_000)+"word"+strings.Repeat("y", 200_000)+" word\nword\n")
	put(t, filepath.Join(dir, "large"), strings.Repeat("word\n", 2<<20))
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	symlink(t, "a.txt", filepath.Join(dir, "link"))
	result := search(t, f, dir, filesystem.SearchOptions{Text: "word", MaxFileSize: 1 << 20})
	long := strings.Repeat("ü", 62) + "word" + strings.Repeat("ä", 186)
	endless := strings.Repeat("x", 125) + "word" + strings.Repeat("y", 371)
	wantFound(
		t, dir, result, "a.txt:5:1:word word", "b/latin1.txt:1:7:gr\uFFFDe word", "b/utf8.txt:1:4:漢字 word",
		"endless:1:200001:"+endless, "endless:2:1:word", "long:1:3001:"+long, "long:2:1:word",
	)
	if result.Binary != 1 || result.TooLarge != 1 || result.Files != 5 || result.Truncated {
		t.Errorf("%+v", result)
	}
	for _, m := range result.Matches {
		for _, l := range m.Lines {
			if !utf8.ValidString(l.Text) || l.Cut != (len(l.Text) > 400) || l.Invalid != strings.Contains(l.Text, "\uFFFD") {
				t.Errorf("%s: %+v", m.Entry.Name, l)
			}
		}
	}
	txt := func(o filesystem.SearchOptions) filesystem.SearchResult {
		o.Glob = "**/*.txt"
		return search(t, f, dir, o)
	}
	wantFound(
		t, dir, txt(filesystem.SearchOptions{Text: "WORD", IgnoreCase: true}), "a.txt:2:8:second Word here", "a.txt:5:1:word word",
		"a.txt:6:6:last WORD", "b/latin1.txt:1:7:gr\uFFFDe word", "b/utf8.txt:1:4:漢字 word",
	)
	wantFound(t, dir, txt(filesystem.SearchOptions{Text: "мир", IgnoreCase: true}), "b/utf8.txt:2:8:Привет Мир")
	wantFound(t, dir, txt(filesystem.SearchOptions{Regexp: `^\w+$`}), "a.txt:1:1:first", "a.txt:3:1:third")
	wantFound(t, dir, txt(filesystem.SearchOptions{Regexp: `here$`}), "a.txt:2:13:second Word here")
	wantFound(t, dir, txt(filesystem.SearchOptions{Regexp: `(?:first|third)\s+\S`}))
	wantFound(t, dir, txt(filesystem.SearchOptions{Regexp: `^$`}), "a.txt:4:1:")
	wantFound(t, dir, txt(filesystem.SearchOptions{Regexp: `(l)AST (w.*)`, IgnoreCase: true}), "a.txt:6:1:last WORD")
	wantFound(t, dir, txt(filesystem.SearchOptions{Regexp: `.`, Type: filesystem.TypeDirectory}))
}

func TestSearchLimits(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := realTempDir(t)
	for i := range 100 {
		put(t, filepath.Join(dir, fmt.Sprintf("%03d", i/10), fmt.Sprintf("%03d", i)), strings.Repeat("word\n", 10))
	}
	all := found(dir, search(t, f, dir, filesystem.SearchOptions{Text: "word"}))
	if len(all) != 1000 {
		t.Fatalf("%d matches, want 1000", len(all))
	}
	result := search(t, f, dir, filesystem.SearchOptions{Text: "word", MaxResults: 123})
	wantFound(t, dir, result, all[:123]...)
	if !result.Truncated || result.Limit != filesystem.LimitResults {
		t.Errorf("%+v", result)
	}
	if result := search(t, f, dir, filesystem.SearchOptions{MaxResults: 110}); result.Truncated || len(result.Matches) != 110 {
		t.Errorf("%d results, truncated %v", len(result.Matches), result.Truncated)
	}
	if result := search(t, f, dir, filesystem.SearchOptions{MaxResults: 109}); result.Limit != filesystem.LimitResults || len(result.Matches) != 109 {
		t.Errorf("%d results, limit %v", len(result.Matches), result.Limit)
	}
	result = search(t, f, dir, filesystem.SearchOptions{Text: "word", MaxEntries: 25})
	if result.Limit != filesystem.LimitEntries || result.Entries != 25 || len(result.Matches) != 22 {
		t.Errorf("entries: limit %q, %d entries, %d files", result.Limit, result.Entries, len(result.Matches))
	}
	result = search(t, f, dir, filesystem.SearchOptions{Text: "word", MaxBytes: 501})
	if result.Limit != filesystem.LimitBytes || result.Bytes > 1000 || len(result.Matches) == 0 || len(result.Matches) > 10 {
		t.Errorf("bytes: limit %q, %d bytes, %d files", result.Limit, result.Bytes, len(result.Matches))
	}
	result = search(t, f, dir, filesystem.SearchOptions{Text: "word", Timeout: time.Nanosecond})
	if result.Limit != filesystem.LimitTime || len(result.Matches) != 0 {
		t.Errorf("time: %+v", result)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Search(ctx, dir, filesystem.SearchOptions{})
	wantError(t, err, context.Canceled)
}

// TestSearchLargeDirectory searches a directory with more entries than a search holds in
// memory.
func TestSearchLargeDirectory(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := realTempDir(t)
	first := filepath.Join(dir, "00000")
	put(t, first, "word")
	const n = 20_000
	for i := 1; i < n; i++ {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("%05d", i))); err != nil {
			t.Fatal(err)
		}
	}
	result := search(t, f, dir, filesystem.SearchOptions{MaxResults: n})
	if len(result.Matches) != n || result.Truncated {
		t.Fatalf("%d matches, truncated: %v", len(result.Matches), result.Truncated)
	}
	for i, m := range result.Matches {
		if m.Entry.Name != fmt.Sprintf("%05d", i) {
			t.Fatalf("match %d is %s", i, m.Entry.Name)
		}
	}
	if result := search(t, f, dir, filesystem.SearchOptions{Text: "word", MaxResults: n}); len(result.Matches) != n {
		t.Errorf("%d files have the text", len(result.Matches))
	}
}

func TestSearchBadPatterns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFS(t, dir)
	for _, test := range []struct {
		options filesystem.SearchOptions
		says    string
	}{
		{filesystem.SearchOptions{Glob: "[a"}, "glob: not well formed"},
		{filesystem.SearchOptions{Glob: "{a,b"}, "glob: not well formed"},
		{filesystem.SearchOptions{Glob: "/etc/*"}, "glob: not relative"},
		{filesystem.SearchOptions{Glob: "../*"}, "glob: not relative"},
		{filesystem.SearchOptions{Glob: `\.\./*`}, "glob: not relative"},
		{filesystem.SearchOptions{Glob: `.\./*`}, "glob: not relative"},
		{filesystem.SearchOptions{Glob: strings.Repeat("{a,b}", 11)}, "glob: more than 1024"},
		{filesystem.SearchOptions{Glob: strings.Repeat("a", 5000)}, "glob: longer"},
		{filesystem.SearchOptions{Regexp: "a)(b"}, "regexp: unexpected )"},
		{filesystem.SearchOptions{Regexp: "a**"}, "regexp: invalid nested repetition operator: **"},
		{filesystem.SearchOptions{Regexp: strings.Repeat("x{1000}", 100)}, "regexp: too complex"},
		{filesystem.SearchOptions{Regexp: "a", Text: "b"}, "regexp: set beside text"},
		{filesystem.SearchOptions{Text: "a\nb"}, "text: holds a line break"},
		{filesystem.SearchOptions{Text: strings.Repeat("a", 5000)}, "text: longer"},
	} {
		_, err := f.Search(t.Context(), dir, test.options)
		wantError(t, err, filesystem.ErrPattern, test.says)
	}
}

func TestSearchUnreadable(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	f := openFS(t)
	dir := realTempDir(t)
	put(t, filepath.Join(dir, "a"), "word")
	put(t, filepath.Join(dir, "b"), "word")
	must(t, os.Mkdir(filepath.Join(dir, "c"), 0o000))
	must(t, os.Chmod(filepath.Join(dir, "a"), 0o000))
	result := search(t, f, dir, filesystem.SearchOptions{Text: "word"})
	wantFound(t, dir, result, "b:1:1:word")
	if result.Unreadable != 2 {
		t.Errorf("%+v", result)
	}
}

// FuzzSearch compares Search with a simple, slow implementation.
func FuzzSearch(f *testing.F) {
	f.Add("**/*.txt", "word", false, []byte("a word\nno\nword\r\n\nWord"))
	f.Add("*", `^\s*w+$`, true, []byte("w\n w\r\n\n\nx w"))
	f.Add("{a,b}*", `(?i)straße|k`, true, []byte("STRASSE\nStraße \u212a\nſ"))
	f.Add(`\.\./*`, `.`, false, []byte("\n\n"))
	f.Add("", `x*`, false, []byte("\xff\nx\x80"))
	fs := open(f, filesystem.Config{})
	dir := realTempDir(f)
	put(f, filepath.Join(dir, "..", "outside"), "outside")
	f.Fuzz(func(t *testing.T, glob, expression string, ignoreCase bool, content []byte) {
		put(t, filepath.Join(dir, "a.txt"), string(content))
		options := filesystem.SearchOptions{Glob: glob, Regexp: expression, IgnoreCase: ignoreCase, MaxResults: 1 << 20}
		result, err := fs.Search(t.Context(), dir, options)
		if err != nil {
			wantError(t, err, filesystem.ErrPattern)
			return
		}
		options.Glob = ""
		result, err = fs.Search(t.Context(), dir, options)
		must(t, err)
		for _, m := range result.Matches {
			if m.Entry.Path != filepath.Join(dir, "a.txt") {
				t.Fatalf("found %s", m.Entry.Path)
			}
		}
		if expression == "" || slices.Contains(content[:min(len(content), 8<<10)], 0) || len(content) > 60<<10 {
			return
		}
		flags := map[bool]string{false: "(?m)", true: "(?mi)"}[ignoreCase]
		re := regexp.MustCompile(flags + expression)
		var want []int
		lines := strings.SplitAfter(string(content), "\n")
		for i, line := range lines {
			ended := strings.HasSuffix(line, "\n")
			line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			if (ended || lines[i] != "") && re.MatchString(line) {
				want = append(want, i+1)
			}
		}
		var got []int
		for _, m := range result.Matches {
			for _, l := range m.Lines {
				got = append(got, l.Number)
				if !utf8.ValidString(l.Text) {
					t.Errorf("line %+v", l)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines that match %q:\n%s", expression, diff)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	f := openFS(b)
	dir := memoryDir(b)
	var members []member
	for i := range 5000 {
		text := strings.Repeat("func (r *Reader) Read(p []byte) (n int, err error) {\n\treturn 0, io.EOF\n}\n", 100)
		members = append(members, fileEntry(fmt.Sprintf("package%03d/file%d.go", i/25, i), text))
	}
	mustExtract(b, f, dir, makeTar(b, members...))
	for name, options := range map[string]filesystem.SearchOptions{
		"name": {Glob: "**/*9.go"}, "text": {Text: "not there"}, "ignore case": {Text: "NOT THERE", IgnoreCase: true},
		"regexp": {Regexp: `func \(\w+ \*Writer\)`}, "regexp without text": {Regexp: `[0-9]{4}`},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				result, err := f.Search(b.Context(), dir, options)
				must(b, err)
				b.SetBytes(result.Bytes)
			}
		})
	}
}
