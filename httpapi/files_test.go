package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/filesystem"
)

// fsPath is the URL of a route of files; query alternates names and values.
func fsPath(route string, query ...string) string {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return "/v1/fs/" + route + "?" + q.Encode()
}

// writeTree makes files; one whose name ends in a slash is a directory.
func writeTree(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// content is what a file holds.
func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// list decodes an array of objects.
func (a answer) list(t *testing.T) []map[string]any {
	t.Helper()
	var v []map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return v
}

// namesOf are the names in a listing.
func namesOf(entries []map[string]any) []string {
	names := []string{}
	for _, e := range entries {
		names = append(names, e["name"].(string))
	}
	return names
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func TestEntries(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	writeTree(t, dir, "b", "a/", "a/inside", "B", "c\nd")
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "b"), at, at); err != nil {
		t.Fatal(err)
	}
	a := s.get(t, fsPath("entries", "path", dir)).want(t, 200)
	entries := a.list(t)
	if diff := cmp.Diff([]string{"B", "a", "b", "c\nd", "link", "pipe"}, namesOf(entries)); diff != "" {
		t.Fatalf("names (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"name": "b", "path": filepath.Join(dir, "b"), "entryType": "file", "size": 1.0, "modified": "2026-03-04T05:06:07.123456789+00:00",
	}
	if diff := cmp.Diff(want, entries[2]); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if e := entries[1]; e["entryType"] != "directory" || e["link"] != nil {
		t.Errorf("directory: %v", e)
	}
	if e := entries[4]; e["entryType"] != "file" || e["link"] != true || e["target"] != "a" {
		t.Errorf("link: %v", e)
	}
	if a.Header.Get("Deskhand-Next") != "" || a.Header.Get("Link") != "" {
		t.Errorf("a whole listing has a next page: %v", a.Header)
	}
	if got := string(s.get(t, fsPath("entries", "path", filepath.Join(dir, "a/inside/.."))).want(t, 200).body); !strings.Contains(got, "inside") {
		t.Errorf(".. in an absolute path: %s", got)
	}
	writeTree(t, dir, "empty/")
	if got := strings.TrimSpace(string(s.get(t, fsPath("entries", "path", filepath.Join(dir, "empty"))).body)); got != "[]" {
		t.Errorf("empty directory = %s, want []", got)
	}
}

func TestEntriesInPages(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	names := []string{"a b&c%41+", "a/", "a/1", "a/2", "a/z/", "a/z/deep", "b", "c\xff", "d\n", "ü"}
	writeTree(t, dir, names...)
	for _, recursive := range []string{"true", "false"} {
		whole := namesOf(s.get(t, fsPath("entries", "path", dir, "recursive", recursive)).want(t, 200).list(t))
		for _, limit := range []string{"1", "2", "3"} {
			var byHeader, byLink []string
			q := []string{"path", dir, "recursive", recursive, "limit", limit}
			for page := s.get(t, fsPath("entries", q...)).want(t, 200); ; {
				byHeader = append(byHeader, namesOf(page.list(t))...)
				next := page.Header.Get("Deskhand-Next")
				if next == "" {
					break
				}
				page = s.get(t, fsPath("entries", append(q, "after", next)...)).want(t, 200)
			}
			link := regexp.MustCompile(`^<(\?.*)>; rel="next"$`)
			for page := s.get(t, fsPath("entries", q...)).want(t, 200); ; {
				byLink = append(byLink, namesOf(page.list(t))...)
				m := link.FindStringSubmatch(page.Header.Get("Link"))
				if m == nil {
					break
				}
				page = s.get(t, "/v1/fs/entries"+m[1]).want(t, 200)
			}
			if diff := cmp.Diff(whole, byHeader); diff != "" {
				t.Errorf("recursive %s, limit %s, by header (-whole +pages):\n%s", recursive, limit, diff)
			}
			if diff := cmp.Diff(whole, byLink); diff != "" {
				t.Errorf("recursive %s, limit %s, by link (-whole +pages):\n%s", recursive, limit, diff)
			}
		}
		if recursive == "true" && len(whole) != len(names) {
			t.Errorf("recursive: %q", whole)
		}
	}
	if got := namesOf(s.get(t, fsPath("entries", "path", dir, "recursive", "true", "depth", "2")).list(t)); cmp.Diff(got, []string{"a", "1", "2", "z", "a b&c%41+", "b", "c\uFFFD", "d\n", "ü"}) != "" {
		t.Errorf("depth 2: %q", got)
	}
}

// TestRelativePaths: they are below the home directory, or below a root. It
// changes what the whole program shares, so it is not parallel.
func TestRelativePaths(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := serve(t, Config{})
	for _, tc := range []struct{ path, want string }{
		{"sub/file", "sub/file"}, {"~/tilde/file", "tilde/file"}, {"./dot", "dot"}, {"~user", "~user"}, {"a/~/b", "a/~/b"},
	} {
		p := s.do(t, call{method: "PUT", path: fsPath("file", "path", tc.path), body: tc.path}).want(t, 200).json(t)
		want := filepath.Join(home, tc.want)
		if p["path"] != want || content(t, want) != tc.path {
			t.Errorf("PUT of %s: %v", tc.path, p)
		}
	}
	if exists(filepath.Join(home, "~")) {
		t.Error("there is a directory ~")
	}
	for _, q := range [][]string{{}, {"path", ""}, {"path", "~"}, {"path", "~/"}, {"path", home}} {
		entries := s.get(t, fsPath("entries", q...)).want(t, 200).list(t)
		if got := namesOf(entries); len(got) != 5 || got[0] != "a" {
			t.Errorf("entries of %q: %q", q, got)
		}
	}
	p := s.do(t, call{method: "PUT", path: fsPath("file", "path", "sub/../../out")}).problem(t, 400, "invalid_request")
	if !strings.Contains(p["detail"].(string), "invalid relative path: sub/../../out") {
		t.Errorf("detail = %v", p["detail"])
	}
}

func TestStat(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	writeTree(t, dir, "file", "sub/")
	file := filepath.Join(dir, "file")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"toFile": "file", "toSub": "sub", "nowhere": "none"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	a := s.get(t, fsPath("stat", "path", file)).want(t, 200)
	want := map[string]any{"path": file, "entryType": "file", "size": 4.0, "modified": "2026-01-02T03:04:05+00:00"}
	if diff := cmp.Diff(want, a.json(t)); diff != "" {
		t.Errorf("stat (-want +got):\n%s", diff)
	}
	if tag := a.Header.Get("ETag"); tag == "" || tag != s.get(t, fsPath("file", "path", file)).Header.Get("ETag") {
		t.Errorf("ETag = %q, is not that of the file", tag)
	}
	if p := s.get(t, fsPath("stat", "path", filepath.Join(dir, "toSub"))).want(t, 200).json(t); p["entryType"] != "directory" || p["link"] != true || p["target"] != "sub" {
		t.Errorf("link to a directory: %v", p)
	}
	nowhere := filepath.Join(dir, "nowhere")
	s.get(t, fsPath("stat", "path", nowhere)).problem(t, 404, "not_found")
	if p := s.get(t, fsPath("stat", "path", nowhere, "follow", "false")).want(t, 200).json(t); p["target"] != "none" {
		t.Errorf("link to nowhere: %v", p)
	}
	if err := os.Chmod(file, 0o751); err != nil {
		t.Fatal(err)
	}
	p := s.get(t, fsPath("stat", "path", file, "details", "true")).want(t, 200).json(t)
	if p["mode"] != "0751" || p["kind"] != "file" || p["uid"] != float64(os.Getuid()) || p["etag"] == nil {
		t.Errorf("details: %v", p)
	}
}

// TestNamesOfOtherBytes uses names that JSON cannot have.
func TestNamesOfOtherBytes(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	name := "a\xff\n\xc3b"
	path := filepath.Join(dir, name)
	encoded := base64.StdEncoding.EncodeToString([]byte(path))
	p := s.do(t, call{method: "PUT", path: fsPath("file", "path", path), body: "hello"}).want(t, 200).json(t)
	if p["pathBase64"] != encoded || p["path"] != filepath.Join(dir, "a\uFFFD\n\uFFFDb") {
		t.Errorf("PUT: %v", p)
	}
	if got := content(t, path); got != "hello" {
		t.Errorf("content = %q", got)
	}
	entry := s.get(t, fsPath("entries", "path", dir)).want(t, 200).list(t)[0]
	if entry["nameBase64"] != base64.StdEncoding.EncodeToString([]byte(name)) || entry["name"] != "a\uFFFD\n\uFFFDb" || entry["pathBase64"] != encoded {
		t.Errorf("entry: %v", entry)
	}
	if got := s.get(t, fsPath("file", "path", path, "download", "true")).want(t, 200); string(got.body) != "hello" {
		t.Errorf("GET = %q", got.body)
	}
	to := filepath.Join(dir, "plain")
	body, err := json.Marshal(map[string]any{"fromBase64": encoded, "to": to})
	if err != nil {
		t.Fatal(err)
	}
	moved := s.post(t, "/v1/fs/move", string(body)).want(t, 200).json(t)
	if moved["fromBase64"] != encoded || moved["to"] != to || moved["toBase64"] != nil || content(t, to) != "hello" {
		t.Errorf("move: %v", moved)
	}
	body, err = json.Marshal(map[string]any{"from": to, "toBase64": encoded})
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, "/v1/fs/move", string(body)).want(t, 200)
	s.do(t, call{method: "DELETE", path: fsPath("entry", "path", path)}).want(t, 200)
	if exists(path) {
		t.Error("not removed")
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	remove := func(name, recursive string) answer {
		return s.do(t, call{method: "DELETE", path: fsPath("entry", "path", at(name), "recursive", recursive)})
	}
	for range 2 {
		if p := s.do(t, call{method: "POST", path: fsPath("mkdir", "path", at("made/by/mkdir"))}).want(t, 200).json(t); p["path"] != at("made/by/mkdir") {
			t.Errorf("mkdir: %v", p)
		}
	}
	writeTree(t, dir, "made/file", "full/inside")
	if err := os.Symlink("full", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", at("dangling")); err != nil {
		t.Fatal(err)
	}
	s.do(t, call{method: "POST", path: fsPath("mkdir", "path", at("made/file"))}).problem(t, 409, "conflict")

	remove("full", "false").problem(t, 409, "conflict")
	if p := remove("link", "true").want(t, 200).json(t); p["path"] != at("link") {
		t.Errorf("remove: %v", p)
	}
	remove("dangling", "false").want(t, 200)
	if exists(at("link")) || exists(at("dangling")) || !exists(at("full/inside")) {
		t.Error("removing a link removed something else")
	}
	remove("full", "true").want(t, 200)
	remove("full", "true").problem(t, 404, "not_found")
	remove("made/file", "false").want(t, 200)
	if exists(at("full")) || exists(at("made/file")) {
		t.Error("not removed")
	}
}

// TestMoveDestroysNothing is fault B9: the reference removes the target first.
func TestMoveDestroysNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	move := func(from, to string, overwrite bool) answer {
		body, err := json.Marshal(map[string]any{"from": at(from), "to": at(to), "overwrite": overwrite})
		if err != nil {
			t.Fatal(err)
		}
		return s.post(t, "/v1/fs/move", string(body))
	}
	writeTree(t, dir, "tree/inside", "file", "other")
	move("none", "tree", true).problem(t, 404, "not_found")
	move("tree", "tree", true).want(t, 200)
	move("file", "file", true).want(t, 200)
	move("tree", "tree/inside/deeper", true).problem(t, 400, "invalid_request")
	move("tree", "tree/deeper", true).problem(t, 400, "invalid_request")
	move("tree/inside", "tree", true).problem(t, 400, "invalid_request")
	for _, name := range []string{"tree/inside", "file", "other"} {
		if content(t, at(name)) != name {
			t.Errorf("%s was destroyed", name)
		}
	}
	p := move("file", "other", false).problem(t, 409, "conflict")
	if detail := p["detail"].(string); !strings.Contains(detail, "destination already exists") || !strings.Contains(detail, at("other")) {
		t.Errorf("detail = %q", detail)
	}
	want := map[string]any{"from": at("file"), "to": at("new/deep/file")}
	if diff := cmp.Diff(want, move("file", "new/deep/file", false).want(t, 200).json(t)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	move("other", "tree", true).want(t, 200)
	if content(t, at("tree")) != "other" || exists(at("other")) {
		t.Error("the tree was not replaced")
	}
}

func TestFileRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	writeTree(t, dir, "file", "sub/inside")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	get := func(route string, q ...string) call { return call{path: fsPath(route, q...)} }
	put := func(header map[string]string, q ...string) call {
		return call{method: "PUT", path: fsPath("file", q...), body: "new", header: header}
	}
	del := func(path string) call { return call{method: "DELETE", path: fsPath("entry", "path", path)} }
	for _, tc := range []struct {
		name   string
		call   call
		status int
		code   string
		detail string // part of it
	}{
		{"no file", get("file", "path", at("none")), 404, "not_found", at("none")},
		{"no directory", get("entries", "path", at("none")), 404, "not_found", at("none")},
		{"no stat", get("stat", "path", at("none/deeper")), 404, "not_found", at("none")},
		{"no entry", del(at("none")), 404, "not_found", at("none")},
		{"read a directory", get("file", "path", at("sub")), 400, "invalid_request", "path is not a file: " + at("sub")},
		{"read a FIFO", get("file", "path", at("pipe")), 400, "invalid_request", "path is not a file"},
		{"read a device", get("file", "path", "/dev/zero"), 400, "invalid_request", "path is not a file"},
		{"list a file", get("entries", "path", at("file")), 400, "invalid_request", "path is not a directory"},
		{"below a file", get("stat", "path", at("file/x")), 400, "invalid_request", "not a directory"},
		{"write a directory", put(nil, "path", at("sub")), 400, "invalid_request", "path is not a file"},
		{"write a FIFO", put(nil, "path", at("pipe")), 400, "invalid_request", "path is not a file"},
		{"write below a file", put(nil, "path", at("file/x")), 400, "invalid_request", "not a directory"},
		{"write a new file of /proc", put(nil, "path", "/proc/new"), 404, "not_found", "/proc"},
		{"endless", get("file", "path", "/proc/kmsg"), 400, "invalid_request", "/proc/kmsg"},
		{"the top", del("/"), 403, "permission_denied", "root"},
		{"relative ..", get("file", "path", "a/../b"), 400, "invalid_request", "invalid relative path: a/../b"},
		{"tilde ..", get("file", "path", "~/../b"), 400, "invalid_request", "invalid relative path: ~/../b"},
		{"NUL", get("file", "path", "a\x00b"), 400, "invalid_request", "NUL"},
		{"5000 bytes", get("stat", "path", "/"+strings.Repeat("x", 5000)), 400, "invalid_request", "too long"},
		{"name of 300 bytes", put(nil, "path", at(strings.Repeat("x", 300))), 400, "invalid_request", "too long"},
		{"no path", get("file"), 400, "invalid_request", "path"},
		{"empty path", get("stat", "path", ""), 400, "invalid_request", "path"},
		{"path twice", call{path: "/v1/fs/stat?path=a&path=b"}, 400, "invalid_request", "once"},
		{"recursive 1", call{method: "DELETE", path: fsPath("entry", "path", at("sub"), "recursive", "1")}, 400, "invalid_request", "true or false"},
		{"limit", get("entries", "path", dir, "limit", "x"), 400, "invalid_request", "limit"},
		{"negative limit", get("entries", "path", dir, "limit", "-1"), 400, "invalid_request", "limit"},
		{"after", get("entries", "path", dir, "after", "%%"), 400, "invalid_request", "after"},
		{"no such root", get("entries", "root", "none"), 400, "invalid_request", "no root of that name"},
		{"mode of letters", put(nil, "path", at("file"), "mode", "rwx"), 400, "invalid_request", "octal"},
		{"mode of setuid", put(nil, "path", at("file"), "mode", "4755"), 400, "invalid_request", "octal"},
		{"part of a file", put(map[string]string{"Content-Range": "bytes 0-2/10"}, "path", at("file")), 400, "invalid_request", "Content-Range"},
		{"unless it is that one", put(map[string]string{"If-None-Match": `"x"`}, "path", at("file")), 400, "invalid_request", "If-None-Match"},
		{"if it is one of them", put(map[string]string{"If-Match": `"x", "y"`}, "path", at("file")), 400, "invalid_request", "If-Match"},
		{"if it is that one", put(map[string]string{"If-Match": `"x"`}, "path", at("file")), 412, "conflict", "changed"},
		{"if there is none", put(map[string]string{"If-None-Match": "*"}, "path", at("file")), 412, "conflict", at("file")},
		{"if there is one", put(map[string]string{"If-Match": "*"}, "path", at("none")), 412, "conflict", at("none")},
		{"move nothing", call{path: "/v1/fs/move", body: `{"to":"x"}`}, 422, "invalid_request", "from: is required"},
		{"move to nowhere", call{path: "/v1/fs/move", body: `{"from":"x"}`}, 422, "invalid_request", "to: is required"},
		{"move of both", call{path: "/v1/fs/move", body: `{"from":"x","fromBase64":"eA==","to":"y"}`}, 422, "invalid_request", "fromBase64"},
		{"move of no base64", call{path: "/v1/fs/move", body: `{"fromBase64":"-","to":"y"}`}, 422, "invalid_request", "fromBase64"},
		{"move the top", call{path: "/v1/fs/move", body: `{"from":"/","to":"/x"}`}, 403, "permission_denied", "root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := s.do(t, tc.call).problem(t, tc.status, tc.code)
			if detail := p["detail"].(string); !strings.Contains(detail, tc.detail) {
				t.Errorf("detail = %q, want it to have %q", detail, tc.detail)
			}
			if tc.status == 404 {
				if details, _ := p["details"].(map[string]any); details["resource"] != "file" || !strings.Contains(details["id"].(string), tc.detail) {
					t.Errorf("details = %v", p["details"])
				}
			}
		})
	}
	t.Cleanup(func() {
		if content(t, at("file")) != "file" || content(t, at("sub/inside")) != "sub/inside" {
			t.Error("a refused request has changed something")
		}
	})
}

// TestRoots: nothing outside of the roots is reached, whatever way is tried.
func TestRoots(t *testing.T) {
	t.Parallel()
	one, two, outside := t.TempDir(), t.TempDir(), t.TempDir()
	writeTree(t, one, "file")
	writeTree(t, two, "sub/file")
	writeTree(t, outside, "secret")
	if err := os.Symlink(outside, filepath.Join(one, "way")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{Roots: []filesystem.Root{{Name: "work", Path: one}, {Name: "data", Path: two}}})
	for path, want := range map[string]string{
		fsPath("file", "path", "file", "root", "work"):                     "file",
		fsPath("file", "path", "sub/file", "root", "data"):                 "sub/file",
		fsPath("file", "path", filepath.Join(two, "sub/file")):             "sub/file",
		fsPath("file", "path", filepath.Join(one, "x/../file")):            "file",
		fsPath("file", "path", "file"):                                     "file", // the first root is home
		fsPath("file", "path", "~/file", "root", "data"):                   "file",
		fsPath("file", "path", filepath.Join(one, "file"), "root", "data"): "file",
	} {
		if got := s.get(t, path).want(t, 200).body; string(got) != want {
			t.Errorf("%s = %q, want %q", path, got, want)
		}
	}
	for name, c := range map[string]call{
		"absolute":         {path: fsPath("file", "path", filepath.Join(outside, "secret"))},
		"shadow":           {path: fsPath("file", "path", "/etc/shadow")},
		"dots":             {path: fsPath("file", "path", one+"/../"+filepath.Base(outside)+"/secret")},
		"through a link":   {path: fsPath("file", "path", filepath.Join(one, "way/secret"))},
		"list a link":      {path: fsPath("entries", "path", filepath.Join(one, "way"))},
		"write through it": {method: "PUT", path: fsPath("file", "path", filepath.Join(one, "way/new")), body: "x"},
		"make through it":  {method: "POST", path: fsPath("mkdir", "path", filepath.Join(one, "way/new"))},
		"remove":           {method: "DELETE", path: fsPath("entry", "path", filepath.Join(one, "way/secret"))},
		"move out":         {path: "/v1/fs/move", body: `{"from":"file","to":"` + outside + `/new"}`},
		"move in":          {path: "/v1/fs/move", body: `{"from":"` + outside + `/secret","to":"new"}`},
		"remove a root":    {method: "DELETE", path: fsPath("entry", "path", one, "recursive", "true")},
	} {
		p := s.do(t, c).problem(t, 403, "permission_denied")
		if strings.Contains(p["detail"].(string), "secret is") {
			t.Errorf("%s: %v", name, p)
		}
	}
	if got, err := os.ReadDir(outside); err != nil || len(got) != 1 || content(t, filepath.Join(outside, "secret")) != "secret" {
		t.Errorf("outside: %v, %v", got, err)
	}
	if _, err := New(Config{StateDir: t.TempDir(), Roots: []filesystem.Root{{Path: filepath.Join(one, "none")}}}); err == nil {
		t.Error("New accepts a root that does not exist")
	}
}

func TestFileMethods(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if got := s.do(t, call{method: "POST", path: "/v1/fs/file"}).problem(t, 405, "invalid_request"); !strings.Contains(got["detail"].(string), "PUT") {
		t.Errorf("detail = %v", got["detail"])
	}
	for _, path := range []string{"/v1/fs/stat", "/v1/fs/entries", "/v1/fs/entry"} {
		method := http.MethodGet
		if strings.HasSuffix(path, "entry") {
			method = http.MethodDelete
		}
		s.do(t, call{method: method, path: path + "?path=/x&access_token=" + s.Token(), anon: true}).problem(t, 401, "token_invalid")
	}
	// Browsers send this one across sites without asking (fault S2).
	made := filepath.Join(t.TempDir(), "made")
	s.do(t, call{method: "POST", path: fsPath("mkdir", "path", made), anon: true, header: map[string]string{"Origin": "http://evil.example"}}).problem(t, 403, "permission_denied")
	if exists(made) {
		t.Error("another site's page has made a directory")
	}
	s.do(t, call{path: fsPath("file", "path", "/etc/passwd", "access_token", s.Token()), anon: true}).want(t, 200)
	s.do(t, call{method: "PUT", path: fsPath("file", "path", "/etc/passwd", "access_token", s.Token()), anon: true}).problem(t, 401, "token_invalid")
}
