package x11

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAuthorityFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "auth")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	foreign := []authEntry{
		{familyLocal, "elsewhere", "3", cookieProtocol, []byte("another host")},
		{familyLocal, host, "3", cookieProtocol, []byte("to be replaced")},
		{0, "\x7f\x00\x00\x01", "3", cookieProtocol, []byte("internet")},
		{familyWild, "", "", "XDM-AUTHORIZATION-1", []byte("not ours")},
		{familyWild, "", "", cookieProtocol, []byte("any display")},
	}
	var b []byte
	for _, e := range foreign {
		b = e.append(b)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	checkCookie := func(display int, want string) {
		t.Helper()
		if got, err := readCookie(path, display); err != nil || string(got) != want {
			t.Errorf("cookie of :%d is %q, %v, want %q", display, got, err, want)
		}
	}
	checkCookie(3, "to be replaced")
	checkCookie(4, "any display")
	if err := MergeAuthority(path, 3, []byte("new")); err != nil {
		t.Fatal(err)
	}
	checkCookie(3, "new")
	checkCookie(33, "any display")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v, %v, want mode 0600", info.Mode(), err)
	}
	if err := RemoveAuthority(path, 3, []byte("another cookie")); err != nil {
		t.Fatal(err)
	}
	checkCookie(3, "new")
	if err := RemoveAuthority(path, 3, []byte("new")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := append(foreign[:1:1], foreign[2:]...)
	if d := cmp.Diff(want, parseAuthority(got), cmp.AllowUnexported(authEntry{})); d != "" {
		t.Errorf("entries of others (-want +got):\n%s", d)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAuthorityFileMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "auth"), filepath.Join(dir, "none", "auth")} {
		if _, err := readCookie(path, 1); err == nil {
			t.Error("a cookie from a file that is not there")
		}
		if err := RemoveAuthority(path, 1, []byte("x")); err != nil {
			t.Error(err)
		}
	}
	if err := MergeAuthority(filepath.Join(dir, "none", "auth"), 1, []byte("x")); err == nil {
		t.Error("MergeAuthority made a directory")
	}
	path := filepath.Join(dir, "auth")
	if err := MergeAuthority(path, 1, []byte("cookie")); err != nil {
		t.Fatal(err)
	}
	if got, err := readCookie(path, 1); err != nil || string(got) != "cookie" {
		t.Errorf("cookie is %q, %v", got, err)
	}
	if _, err := readCookie(path, 2); err == nil {
		t.Error("the cookie of another display was taken")
	}
}

// TestMergeAuthorityConcurrently adds the cookies of many displays to one file.
func TestMergeAuthorityConcurrently(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "auth")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			cookie := fmt.Appendf(nil, "cookie %d", i)
			if err := MergeAuthority(path, i, cookie); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := RemoveAuthority(path, i, cookie); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		got, err := readCookie(path, i)
		if want := fmt.Sprintf("cookie %d", i); i%2 == 1 && (err != nil || string(got) != want) || i%2 == 0 && err == nil {
			t.Errorf("cookie of :%d is %q, %v", i, got, err)
		}
	}
}

// TestLockAuthorityStale: the stale lock of a killed process is replaced.
func TestLockAuthorityStale(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "auth")
	for _, name := range []string{path + "-c", path + "-l"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * lockStale)
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := MergeAuthority(path, 1, []byte("cookie")); err != nil {
		t.Fatal(err)
	}
}

// FuzzParseAuthority checks that what is read is a leading part of the input,
// written the same way.
func FuzzParseAuthority(f *testing.F) {
	whole := authEntry{familyLocal, "host", "7", cookieProtocol, bytes.Repeat([]byte{7}, 16)}.append(nil)
	f.Add(whole)
	f.Add(append(bytes.Clone(whole), whole[:9]...))
	f.Add([]byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		for _, e := range parseAuthority(b) {
			again = e.append(again)
		}
		if !bytes.HasPrefix(b, again) {
			t.Errorf("%x was read as %x", b, again)
		}
		if len(b) > 0 && len(b)-len(again) >= 10+4*0xffff {
			t.Errorf("%d bytes were left", len(b)-len(again))
		}
	})
}

// It is not parallel, because it changes the environment.
func TestAuthorityNowhere(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XAUTHORITY", "")
	t.Setenv("HOME", "")
	path := AuthorityPath()
	if path != "" {
		t.Errorf("AuthorityPath() = %q without HOME", path)
	}
	if err := MergeAuthority(path, 1, NewCookie()); err == nil {
		t.Error("MergeAuthority without a path succeeded")
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("files were left: %v, %v", left, err)
	}
}
