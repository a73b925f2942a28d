package secrets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const value = "hunter2 \u00e4\t"

func TestStore(t *testing.T) {
	t.Parallel()
	s := New()
	for _, name := range []string{"B", "_a.b-c1", "B", strings.Repeat("x", 64)} {
		if err := s.Set(name, value); err != nil {
			t.Errorf("Set(%q): %v", name, err)
		}
	}
	list := s.List()
	if len(list) != 3 || list[0].Name != "B" || list[1].Name != "_a.b-c1" || list[0].Set.IsZero() {
		t.Errorf("List() = %+v", list)
	}
	if got, ok := s.Value("B"); got != value || !ok {
		t.Errorf("Value(B) = %q, %v", got, ok)
	}
	if err := s.Delete("B"); err != nil {
		t.Error(err)
	}
	if err := s.Delete("B"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Delete of a deleted secret: %v", err)
	}
	if got, ok := s.Value("B"); got != "" || ok {
		t.Errorf("Value of a deleted secret = %q, %v", got, ok)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	s := New()
	for _, bad := range []struct{ name, value, field string }{
		{"", value, "name"},
		{"1a", value, "name"},
		{"a/b", value, "name"},
		{"a b", value, "name"},
		{"a\n", value, "name"},
		{strings.Repeat("x", 65), value, "name"},
		{"A", "", "value"},
		{"A", strings.Repeat("v", MaxValue+1), "value"},
		{"A", "v\x00", "value"},
		{"A", "v\xff", "value"},
	} {
		err := s.Set(bad.name, bad.value)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != bad.field {
			t.Errorf("Set(%q, %.10q) = %v, want an InvalidError about %s", bad.name, bad.value, err, bad.field)
		}
	}
	for i := range MaxSecrets {
		if err := s.Set(fmt.Sprintf("N%d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set("more", value); !errors.Is(err, ErrTooMany) {
		t.Errorf("Set of one too many: %v", err)
	}
	if err := s.Set("N7", "other"); err != nil {
		t.Errorf("Set of a known one in a full store: %v", err)
	}
}

// TestFormatted wants no value in what formats a store, also as a part of another value.
func TestFormatted(t *testing.T) {
	t.Parallel()
	s := New()
	if err := s.Set("A", "hunter2"); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{s, struct{ S *Store }{s}, &struct{ s *Store }{s}, map[string]any{"s": s}, s.List()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "hunter2") {
				t.Errorf("%s: %s", verb, text)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	t.Setenv("DESKHAND_TEST_SECRET", value)
	t.Setenv("DESKHAND_TEST_EMPTY", "")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("good", link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := file("good", value+"\n", 0o600)
	s := New()
	for _, source := range []string{"env:DESKHAND_TEST_SECRET", good, "file:" + link, file("no newline", value, 0o400), file("crowd", value, 0o440)} {
		variable, err := s.Load("A", source)
		if err != nil {
			t.Errorf("Load(%s): %v", source, err)
		}
		if strings.HasPrefix(source, "env:") != (variable == "DESKHAND_TEST_SECRET") {
			t.Errorf("Load(%s) returns the variable %q", source, variable)
		}
		if got, _ := s.Value("A"); got != value {
			t.Errorf("Load(%s): the value is %q", source, got)
		}
		if err := s.Delete("A"); err != nil {
			t.Error(err)
		}
	}
	for source, want := range map[string]string{
		"":                                   "env:NAME or file:PATH",
		"env":                                "env:NAME or file:PATH",
		"env:":                               "env:NAME or file:PATH",
		"exec:cat":                           "env:NAME or file:PATH",
		"env:DESKHAND_TEST_NO":               "not set",
		"env:DESKHAND_TEST_EMPTY":            "must not be empty",
		"file:" + filepath.Join(dir, "no"):   "no such file",
		"file:" + dir:                        "not a regular file",
		"file:" + filepath.Join(dir, "fifo"): "not a regular file",
		file("readable", value, 0o604):       "chmod 600",
		file("writable", value, 0o620):       "chmod 600",
		file("large", strings.Repeat(value, 9000), 0o600): "at most 65536 bytes",
		file("empty", "\n", 0o600):                        "must not be empty",
	} {
		if _, err := s.Load("A", source); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Load(%s) = %v, want %q", source, err, want)
		}
	}
	if len(s.List()) != 0 {
		t.Errorf("secrets of failed loads: %v", s.List())
	}
}
