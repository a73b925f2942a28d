package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/folders"
)

// manySkills returns a store. The folder cwd is configured with a source of n skills.
func manySkills(t *testing.T, n int, cwd string, cfg folders.Config) *Store {
	t.Helper()
	source := t.TempDir()
	for i := range n {
		at := filepath.Join(source, fmt.Sprintf("%03d", i))
		if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, skillFile), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := folders.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	entry := fmt.Sprintf(`{"sources":[{"type":"local","source":%q}]}`, source)
	if err := f.Put(t.Context(), cwd, folders.Skills, "many", json.RawMessage(entry)); err != nil {
		t.Fatal(err)
	}
	return New(Config{Folders: f})
}

// TestSkillsAreBounded configures more skills than a folder may have.
func TestSkillsAreBounded(t *testing.T) {
	t.Parallel()
	cwd := t.TempDir()
	store := manySkills(t, 201, cwd, folders.Config{})
	problems := store.Place(t.Context(), cwd, "other")
	if len(problems) != 1 || !strings.Contains(problems[0], "the folder has more than 200 skills") {
		t.Errorf("problems %q", problems)
	}
	if placed, err := os.ReadDir(filepath.Join(cwd, otherAgentFolder)); err != nil || len(placed) != 200 {
		t.Errorf("%d skills, %v", len(placed), err)
	}
}

// TestPlaceEnds: Place ends with its context, while it copies the second skill.
func TestPlaceEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cwd, records := t.TempDir(), t.TempDir()
	store := manySkills(t, 20, cwd, folders.Config{Locate: func(bool) (string, error) {
		if _, err := os.Stat(filepath.Join(cwd, otherAgentFolder, "000")); err == nil {
			cancel()
		}
		return records, nil
	}})
	problems := store.Place(ctx, cwd, "other")
	if len(problems) == 0 || len(problems) > 2 || !strings.Contains(problems[0], "context canceled") {
		t.Errorf("problems %q", problems)
	}
}

// TestNestedSkills: a skill below another one is a part of it.
func TestNestedSkills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, at := range []string{"a", "a-b", "a/c", "d/e", "a-b/f/g"} {
		at = filepath.Join(dir, at)
		if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, skillFile), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := location{dir: dir, name: "."}.skills("name")
	var names []string
	for _, one := range all {
		names = append(names, one.name)
	}
	if want := []string{"a", "a-b", "e"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("skills %q, %v, want %q", names, err, want)
	}
}
