package filesystem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home/u", "work/deep/inner", "other"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("work", filepath.Join(top, "alias")); err != nil {
		t.Fatal(err)
	}
	whole, err := Open(Config{Home: top + "/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	narrow, err := Open(Config{
		Home:  top + "/elsewhere",
		Roots: []Root{{Name: "w", Path: top + "/alias"}, {Path: top + "/other"}, {Name: "in", Path: top + "/work/deep/inner"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer narrow.Close()
	other, err := narrow.In("other")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x/", 2500)

	tests := []struct {
		fs   *FS
		path string
		want string // absolute path, a space, name in the tree
		err  error
	}{
		{whole, "", top + "/home/u " + top[1:] + "/home/u", nil},
		{whole, "~", top + "/home/u " + top[1:] + "/home/u", nil},
		{whole, "~/", top + "/home/u " + top[1:] + "/home/u", nil},
		{whole, "~/a//b/./c/", top + "/home/u/a/b/c " + top[1:] + "/home/u/a/b/c", nil},
		{whole, "~a", top + "/home/u/~a " + top[1:] + "/home/u/~a", nil},
		{whole, "a/~", top + "/home/u/a/~ " + top[1:] + "/home/u/a/~", nil},
		{whole, "a\n\xff", top + "/home/u/a\n\xff " + top[1:] + "/home/u/a\n\xff", nil},
		{whole, "a..", top + "/home/u/a.. " + top[1:] + "/home/u/a..", nil},
		{whole, "/", "/ .", nil},
		{whole, "/etc/../usr//x", "/usr/x usr/x", nil},
		{whole, "/../../..", "/ .", nil},
		{whole, "..", "", ErrInvalidPath},
		{whole, "a/../b", "", ErrInvalidPath},
		{whole, "~/../b", "", ErrInvalidPath},
		{whole, "a\x00b", "", ErrInvalidPath},
		{whole, long, "", ErrInvalidPath},
		{whole, "/" + long, "", ErrInvalidPath},

		{narrow, "", top + "/alias .", nil},
		{narrow, "~", top + "/alias .", nil},
		{narrow, "x", top + "/alias/x x", nil},
		{narrow, top + "/alias/x", top + "/alias/x x", nil},
		{narrow, top + "/work/x", top + "/work/x x", nil},
		{narrow, top + "/work/deep/inner/x", top + "/work/deep/inner/x x", nil},
		{narrow, top + "/work/deep/innerx", top + "/work/deep/innerx deep/innerx", nil},
		{narrow, top + "/other", top + "/other .", nil},
		{narrow, top + "/other/../work/y", top + "/work/y y", nil},
		{narrow, top + "/others", "", ErrOutside},
		{narrow, top + "/alias/../home", "", ErrOutside},
		{narrow, top, "", ErrOutside},
		{narrow, "/", "", ErrOutside},
		{narrow, "/etc/passwd", "", ErrOutside},
		{narrow, "../other", "", ErrInvalidPath},
		{other, "", top + "/other .", nil},
		{other, "x", top + "/other/x x", nil},
		{other, "~/x", top + "/alias/x x", nil},
		{other, top + "/work/x", top + "/work/x x", nil},
	}
	for _, test := range tests {
		p, err := test.fs.locate(test.path)
		got := ""
		if err == nil {
			got = p.path + " " + p.name
		}
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("locate(%.60q) = %q, %v; want %q, %v", test.path, got, err, test.want, test.err)
		}
	}
	if _, err := whole.locateEntry(""); !errors.Is(err, ErrInvalidPath) {
		t.Errorf("locateEntry of nothing: %v, want ErrInvalidPath", err)
	}
	if got := (&Error{Reason: "p", Path: "a\nb\xff", Remedy: "r"}).Error(); got != `p: "a\nb\xff" (r)` {
		t.Errorf("error of a path that cannot be shown: %s", got)
	}
}

// FuzzLocate uses any paths in a root with many links that lead out. Nothing outside is read or
// changed.
func FuzzLocate(f *testing.F) {
	for _, seed := range []string{
		"", "~", "/", "a/b", "a/../..", "up/secret", "abs/secret", "self/self/up/secret", "chain/secret", "hop",
		"in/../../secret", "a\x00", "TOP/root/up/secret", "TOP/secret", "TOP/root/../secret", "//TOP/./secret", "deep/x",
		"TOP/alias/up/secret", strings.Repeat("self/", 500) + "up/secret",
	} {
		f.Add(seed)
	}
	const secret = "not to be seen"
	f.Fuzz(func(t *testing.T, name string) {
		top, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(top, "root")
		secretFile := filepath.Join(top, "secret")
		for _, err := range []error{
			os.Mkdir(root, 0o777), os.Mkdir(root+"/in", 0o777), os.Symlink("root", top+"/alias"),
			os.WriteFile(secretFile, []byte(secret), 0o666),
			os.Symlink("..", root+"/up"), os.Symlink(top, root+"/abs"), os.Symlink(".", root+"/self"),
			os.Symlink("self/up", root+"/chain"), os.Symlink("../secret", root+"/hop"), os.Symlink("in", root+"/deep"),
			os.Symlink("../..", root+"/in/up"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		fs, err := Open(Config{Roots: []Root{{Path: top + "/alias"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer fs.Close()
		name = strings.ReplaceAll(name, "TOP", top)
		if p, err := fs.locate(name); err == nil && !filepath.IsLocal(p.name) {
			t.Errorf("locate(%q) = %q, which is not local", name, p.name)
		}
		if file, err := fs.OpenFile(name); err == nil {
			b := make([]byte, len(secret))
			if n, _ := file.Read(b); string(b[:n]) == secret {
				t.Errorf("OpenFile(%q) reads the secret", name)
			}
			_ = file.Close()
		}
		_, _ = fs.Stat(name)
		_, _ = fs.List(t.Context(), name, ListOptions{Recursive: true, Limit: 20})
		_, _ = fs.Write(t.Context(), name, strings.NewReader("x"), WriteOptions{NoSync: true})
		_, _ = fs.Write(t.Context(), name, strings.NewReader("x"), WriteOptions{NoSync: true, Append: true})
		_ = fs.Mkdir(name + "/new")
		_ = fs.Move(t.Context(), "self/in", name, MoveOptions{Overwrite: true})
		_ = fs.Move(t.Context(), name, "taken", MoveOptions{})
		_ = fs.Remove(t.Context(), name, true)
		content, err := os.ReadFile(secretFile)
		if err != nil || string(content) != secret {
			t.Errorf("%q: the secret is %q, %v", name, content, err)
		}
		if left, err := os.ReadDir(top); err != nil || len(left) != 3 {
			t.Errorf("%q: outside of the root there is %v, %v", name, left, err)
		}
	})
}

// TestLinkError: what is read as a link and is none was replaced by another program.
func TestLinkError(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	dir := newFolder(file, top)
	defer dir.close()
	if _, err := dir.readlink("file"); !errors.Is(err, ErrBusy) {
		t.Errorf("readlink of a file: %v", err)
	}
}
