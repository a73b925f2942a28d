package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/testspace"
)

// TestRevocationWithoutSpace: the answer is 507 if the file system needs space to remove a file,
// as an overlay does. The file is removed when there is space.
func TestRevocationWithoutSpace(t *testing.T) {
	t.Parallel()
	disk := testspace.Disk(t, "4m,nr_inodes=200")
	if disk == "" {
		return
	}
	lower, merged := filepath.Join(disk, "lower"), filepath.Join(disk, "merged")
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(disk, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, Config{StateDir: filepath.Join(lower, "state")})
	id, value := s.token(t, `{"scope":"view"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("overlay", merged, "overlay", 0, "lowerdir="+lower+",upperdir="+disk+"/upper,workdir="+disk+"/work"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(merged, syscall.MNT_DETACH) })
	s = serve(t, Config{StateDir: filepath.Join(merged, "state")})
	s.do(t, call{path: "/v1/health", header: bearer(value)}).want(t, 200)
	var fill []string
	for err := error(nil); err == nil; {
		name := filepath.Join(disk, strconv.Itoa(len(fill)))
		if err = os.WriteFile(name, nil, 0o600); err == nil {
			fill = append(fill, name)
		}
	}
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).problem(t, 507, "stream_error")
	s.do(t, call{path: "/v1/health", header: bearer(value)}).problem(t, 401, "token_invalid")
	for _, name := range fill {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the file is removed", func() bool {
		_, err := os.Stat(filepath.Join(merged, "state", "tokens", id+".json"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestTooManyTokens checks the answer to the request for token 1001.
func TestTooManyTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	id, _ := s.token(t, `{"scope":"view"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tokens", id+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var token map[string]any
	decode(t, text, &token)
	for i := range 999 {
		token["id"], token["hash"] = fmt.Sprint("tok_", i), fmt.Sprint(i)
		text, err := json.Marshal(token)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "tokens", fmt.Sprint("tok_", i, ".json")), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s = serve(t, Config{StateDir: dir})
	if detail := s.post(t, "/v1/tokens", `{"scope":"view"}`).problem(t, 409, "conflict")["detail"]; !strings.Contains(fmt.Sprint(detail), "1000 tokens") {
		t.Errorf("token 1001: %v", detail)
	}
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	s.post(t, "/v1/tokens", `{"scope":"view"}`).want(t, 200)
}
