package configfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/internal/configfile"
)

// ctx returns a context that the programs of this test binary can also use.
func ctx() context.Context { return context.Background() }

func put(t *testing.T, s *configfile.Store, file, name, value string) {
	t.Helper()
	if err := s.Put(t.Context(), file, name, json.RawMessage(value)); err != nil {
		t.Fatalf("Put(%q) = %v", name, err)
	}
}

func get(t *testing.T, s *configfile.Store, file, name string) string {
	t.Helper()
	v, err := s.Get(file, name)
	if err != nil {
		t.Fatalf("Get(%q) = %v", name, err)
	}
	return string(v)
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write makes a file and the directories above it.
func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// names returns the names in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestPath(t *testing.T) {
	t.Parallel()
	if got, want := configfile.Path("/a/b", "mcp"), "/a/b/.sandbox-agent/config/mcp.json"; got != want {
		t.Errorf("Path = %q, want %q", got, want)
	}
}

func TestPutGetDelete(t *testing.T) {
	t.Parallel()
	var s configfile.Store
	file := configfile.Path(filepath.Join(t.TempDir(), "not", "there"), "mcp")
	if _, err := s.Get(file, "a"); !errors.Is(err, configfile.ErrNotFound) {
		t.Errorf("Get without a file = %v, want %v", err, configfile.ErrNotFound)
	}
	put(t, &s, file, "b", `{"z":1,"a":"<&>","f":1e400,"big":12345678901234567890}`)
	put(t, &s, file, "a\n", `[ ]`)
	want := `{
  "a\n": [],
  "b": {
    "z": 1,
    "a": "<&>",
    "f": 1e400,
    "big": 12345678901234567890
  }
}
`
	if diff := cmp.Diff(want, text(t, file)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode of a new file = %v, %v; want 0600", info.Mode(), err)
	}
	if _, err := s.Get(file, "c"); !errors.Is(err, configfile.ErrNotFound) {
		t.Errorf("Get = %v, want %v", err, configfile.ErrNotFound)
	}
	for _, name := range []string{"b", "b", "a\n"} {
		if err := s.Delete(t.Context(), file, name); err != nil {
			t.Errorf("Delete(%q) = %v", name, err)
		}
	}
	if got := text(t, file); got != "{}\n" {
		t.Errorf("file without entries = %q", got)
	}
	if got := names(t, filepath.Dir(file)); len(got) != 1 {
		t.Errorf("left beside the file: %q", got)
	}
}

func TestDeleteMakesTheFile(t *testing.T) {
	t.Parallel()
	var s configfile.Store
	file := configfile.Path(t.TempDir(), "skills")
	if err := s.Delete(t.Context(), file, "a"); err != nil {
		t.Fatal(err)
	}
	if got := text(t, file); got != "{}\n" {
		t.Errorf("file = %q, want {}", got)
	}
}

// TestPutKeepsOtherEntries changes one entry of a file that a person or a later version has
// written.
func TestPutKeepsOtherEntries(t *testing.T) {
	t.Parallel()
	var s configfile.Store
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, `{"$schema":"https://example.com/x.json","number":17,"nothing":null,
		"mine":{"type":"local","command":"x","later":{"b":[1,2.50],"a":"\u00e9<"}},"list":[{"x":1}]}`)
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	put(t, &s, file, "new", `true`)
	want := map[string]string{
		"$schema": `"https://example.com/x.json"`, "number": "17", "nothing": "null", "new": "true",
		"mine": `{"type":"local","command":"x","later":{"b":[1,2.50],"a":"\u00e9<"}}`, "list": `[{"x":1}]`,
	}
	entries, err := s.Entries(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, entry := range entries {
		got[name] = compact(t, entry)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode = %v, %v; want it kept", info.Mode(), err)
	}
}

// compact removes the white space of a JSON text.
func compact(t *testing.T, v json.RawMessage) string {
	t.Helper()
	var b strings.Builder
	inText := false
	for i, c := range string(v) {
		if c == '"' && (i == 0 || v[i-1] != '\\') {
			inText = !inText
		}
		if inText || !strings.ContainsRune(" \n", c) {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// A file that is not valid is never overwritten.
func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "cut short": `{"a": {"b"`, "cut in a name": `{"a`, "cut after a name": `{"a"`, "cut after an entry": `{"a":1`,
		"list": "[]", "null": "null", "number": "1", "no JSON": "type: local", "second object": "{}{}",
		"text behind": "{} x", "comma at the end": `{"a":1,}`, "comment": "{ // hi\n}", "no UTF-8": "{\"a\":\"\xff\"}",
		"same name twice": `{"a":1,"a":2}`, "same long name": fmt.Sprintf(`{%q:1,%[1]q:2}`, strings.Repeat("n", 1<<20)), "two writers together": `{"a":1}}"b":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s configfile.Store
			file := configfile.Path(t.TempDir(), "mcp")
			write(t, file, content)
			for what, err := range map[string]error{
				"Get": second(s.Get(file, "a")), "Put": s.Put(t.Context(), file, "a", json.RawMessage(`1`)),
				"Delete": s.Delete(t.Context(), file, "a"),
			} {
				var invalid *configfile.InvalidFileError
				if !errors.As(err, &invalid) || invalid.Path != file || invalid.Unwrap() == nil || !strings.Contains(err.Error(), "invalid config file "+file+": ") {
					t.Errorf("%s = %v, want an InvalidFileError that names %s", what, err, file)
				}
				if len(err.Error()) > len(file)+1000 {
					t.Errorf("%s: an error of %d bytes", what, len(err.Error()))
				}
			}
			if got := text(t, file); got != content {
				t.Errorf("the file was changed to %q", got)
			}
			if got := names(t, filepath.Dir(file)); len(got) != 1 {
				t.Errorf("left beside the file: %q", got)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestUnusableFiles has entries in the place of the file that are not regular files.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(file string) error{
		"directory": func(file string) error { return os.Mkdir(file, 0o755) },
		"FIFO":      func(file string) error { return syscall.Mkfifo(file, 0o644) },
		"too large": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, configfile.MaxSize+1))
		},
		"link to itself": func(file string) error { return os.Symlink(filepath.Base(file), file) },
		"endless":        func(file string) error { return os.Symlink("/dev/zero", file) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s configfile.Store
			file := filepath.Join(t.TempDir(), "mcp.json")
			if err := build(file); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(file, "a"); err == nil || errors.Is(err, configfile.ErrNotFound) || !strings.Contains(err.Error(), file) {
				t.Errorf("Get = %v, want an error that names %s", err, file)
			}
			if err := s.Put(t.Context(), file, "a", json.RawMessage(`1`)); err == nil {
				t.Error("Put succeeded")
			}
		})
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	var s configfile.Store
	file := filepath.Join(t.TempDir(), "mcp.json")
	put(t, &s, file, "a", `1`)
	before := text(t, file)
	if err := s.Put(t.Context(), file, "b", json.RawMessage(`{"x":`)); err == nil {
		t.Error("Put accepted text that is not JSON")
	}
	large := json.RawMessage(`"` + strings.Repeat("x", configfile.MaxSize) + `"`)
	if err := s.Put(t.Context(), file, "b", large); !errors.Is(err, configfile.ErrTooLarge) {
		t.Errorf("Put = %v, want %v", err, configfile.ErrTooLarge)
	}
	if got := text(t, file); got != before {
		t.Errorf("the file was changed to %.100q", got)
	}
}

// Neither reads nor writes follow a link below the directory. The directory itself may be
// reached through links.
func TestSymbolicLinks(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]func(dir, away string) error{
		"the file": func(dir, away string) error {
			return os.Symlink(filepath.Join(away, "mcp.json"), configfile.Path(dir, "mcp"))
		},
		"the file, to nothing": func(dir, away string) error {
			return os.Symlink(filepath.Join(away, "new.json"), configfile.Path(dir, "mcp"))
		},
		"the file, inside": func(dir, _ string) error { return os.Symlink("skills.json", configfile.Path(dir, "mcp")) },
		"its folder": func(dir, away string) error {
			config := filepath.Dir(configfile.Path(dir, "mcp"))
			return errors.Join(os.RemoveAll(config), os.Symlink(away, config))
		},
		"the folder above": func(dir, away string) error {
			top := filepath.Join(dir, ".sandbox-agent")
			return errors.Join(os.RemoveAll(top), os.MkdirAll(filepath.Join(away, "config"), 0o755), os.Symlink(away, top))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, away := t.TempDir(), t.TempDir()
			write(t, configfile.Path(dir, "skills"), `{"old":1}`)
			write(t, filepath.Join(away, "mcp.json"), `{"old":1}`)
			if err := link(dir, away); err != nil {
				t.Fatal(err)
			}
			before := files(t, dir, away)
			var s configfile.Store
			file := configfile.Path(dir, "mcp")
			for what, err := range map[string]error{
				"Get": second(s.Get(file, "old")), "Put": s.Put(t.Context(), file, "a", json.RawMessage(`1`)), "Delete": s.Delete(t.Context(), file, "old"),
			} {
				var invalid *configfile.InvalidFileError
				if !errors.As(err, &invalid) || invalid.Path != file || !strings.Contains(err.Error(), "symbolic link") {
					t.Errorf("%s = %v, want an InvalidFileError about the link", what, err)
				}
			}
			if diff := cmp.Diff(before, files(t, dir, away)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	var s configfile.Store
	put(t, &s, configfile.Path(link, "mcp"), "a", `1`)
	if got := get(t, &s, configfile.Path(dir, "mcp"), "a"); got != "1" {
		t.Errorf("a = %s", got)
	}
}

// files returns the content of the files below directories, by path.
func files(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			if e.Type()&fs.ModeSymlink != 0 {
				all[path], err = os.Readlink(path)
				return err
			}
			all[path] = text(t, path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Deeply nested text is refused by reads and writes before it takes memory. The indentation of
// 119 kB would take 4 GB, because it grows with the square of the depth.
func TestDeepFiles(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	wide := strings.Repeat("[", 100) + strings.Repeat("1,", 1<<17) + "1" + strings.Repeat("]", 100)
	var s configfile.Store
	file := configfile.Path(t.TempDir(), "mcp")
	put(t, &s, file, "limit", deep(100))
	if got := get(t, &s, file, "limit"); compact(t, json.RawMessage(got)) != deep(100) {
		t.Errorf("limit = %s", got)
	}
	bad := configfile.Path(t.TempDir(), "mcp")
	write(t, bad, `{"a":`+deep(9990)+`,"b":`+deep(9990)+`,"c":`+deep(9990)+`}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	errs := map[string]error{
		"Put": s.Put(t.Context(), file, "deep", json.RawMessage(deep(101))), "Entries": second(s.Entries(bad)),
		"Put beside": s.Put(t.Context(), bad, "d", json.RawMessage("1")), "Delete": s.Delete(t.Context(), bad, "d"),
	}
	wideErr := s.Put(t.Context(), file, "wide", json.RawMessage(wide))
	runtime.ReadMemStats(&after)
	for what, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "nested too deep: at most 10") {
			t.Errorf("%s = %v", what, err)
		}
	}
	if !errors.Is(wideErr, configfile.ErrTooLarge) {
		t.Errorf("Put of an entry with wide indentation = %v", wideErr)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("used %d MB", used>>20)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	file := configfile.Path(top, "mcp")
	write(t, file, `{"a":1}`)
	for _, dir := range []string{filepath.Dir(top), top, filepath.Dir(filepath.Dir(file)), filepath.Dir(file)} {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	}
	asUnprivileged(t, func() {
		var s configfile.Store
		if v, err := s.Get(file, "a"); err != nil || string(v) != "1" {
			t.Errorf("Get = %s, %v", v, err)
		}
		for what, err := range map[string]error{
			"Put": s.Put(ctx(), file, "b", json.RawMessage(`2`)), "Delete": s.Delete(ctx(), file, "a"),
			"Put of a new file": s.Put(ctx(), configfile.Path(filepath.Join(top, "new"), "mcp"), "b", json.RawMessage(`2`)),
		} {
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), top) {
				t.Errorf("%s = %v, want %v and the path", what, err, fs.ErrPermission)
			}
		}
	})
	if got := text(t, file); got != `{"a":1}` {
		t.Errorf("the file was changed to %s", got)
	}
}

// A write that fails in the middle leaves the old file.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, `{"a":1}`)
	cmd := other(t, "small files", file)
	if err := cmd.Run(); err == nil || !strings.Contains(fmt.Sprint(cmd.Stderr), syscall.EFBIG.Error()) {
		t.Fatalf("Put = %v, %s; want %v", err, cmd.Stderr, syscall.EFBIG)
	}
	if got := text(t, file); got != `{"a":1}` {
		t.Errorf("the file was changed to %.100s", got)
	}
	if got := names(t, filepath.Dir(file)); len(got) != 1 {
		t.Errorf("left beside the file: %q", got)
	}
}

// The next change removes the temporary files of a program that was killed during a change, and
// no other file.
func TestLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	for _, name := range []string{".mcp.json.123.tmp", "mcp.json.tmp", ".skills.json.123.tmp"} {
		write(t, filepath.Join(dir, name), `{"half`)
	}
	var s configfile.Store
	put(t, &s, file, "a", `1`)
	if diff := cmp.Diff([]string{".skills.json.123.tmp", "mcp.json", "mcp.json.tmp"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestWritesAreAtomic reads while another goroutine writes.
func TestWritesAreAtomic(t *testing.T) {
	t.Parallel()
	var s configfile.Store
	file := filepath.Join(t.TempDir(), "mcp.json")
	put(t, &s, file, "stays", `"here"`)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if v, err := s.Get(file, "stays"); err != nil || string(v) != `"here"` {
					t.Errorf("Get = %s, %v", v, err)
					return
				}
			}
		})
	}
	for i := range 100 {
		put(t, &s, file, "changes", string(entry(i)))
	}
	close(done)
	readers.Wait()
}

// TestDeleteIf removes no entry that has changed, and makes no file.
func TestDeleteIf(t *testing.T) {
	t.Parallel()
	var s configfile.Store
	file := configfile.Path(t.TempDir(), "skills")
	one := func(v json.RawMessage) bool { return string(v) == "1" }
	if err := s.DeleteIf(t.Context(), file, "a", one); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	put(t, &s, file, "a", `1`)
	put(t, &s, file, "b", `2`)
	for _, name := range []string{"a", "b"} {
		if err := s.DeleteIf(t.Context(), file, name, one); err != nil {
			t.Fatal(err)
		}
	}
	if got := text(t, file); compact(t, json.RawMessage(got)) != `{"b":2}` {
		t.Errorf("file = %s", got)
	}
}
