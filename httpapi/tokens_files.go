package httpapi

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Each token has a file. Revoking a token removes its file, which works on a full
// disk too.

// tokenDir returns the directory of the token files in a state directory.
func tokenDir(stateDir string) string { return filepath.Join(stateDir, "tokens") }

const tokenSuffix = ".json"

// readTokens reads the files of all tokens. It logs a damaged file and skips it.
func readTokens(dir string, log *slog.Logger) ([]*grant, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var grants []*grant
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		g := new(grant)
		err := errNotToken // as a FIFO, which would block
		if f.Type().IsRegular() {
			err = g.read(path)
		}
		if err == nil && f.Name() != g.ID+tokenSuffix {
			err = errNotToken
		}
		if err != nil {
			log.Error("the file of a token cannot be read, so that token is refused; repair the file or remove it, and make a new token with POST /v1/tokens",
				"file", path, "error", err)
			continue
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// read reads a grant from its file.
func (g *grant) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return g.parse(text)
}

// writeToken creates the file of a new token and syncs it to disk.
func writeToken(dir string, g *grant) (err error) {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, g.ID+tokenSuffix)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close(), syncDir(dir)); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// syncDir syncs a directory's list of files to disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) { // a file system without such a thing
		err = nil
	}
	return errors.Join(err, d.Close())
}

// eraseRetry is the interval of attempts to remove the files of ended tokens.
const eraseRetry = 2 * time.Second

// eraseSoon schedules a call of erase after a while, unless one is scheduled. The
// caller has mu.
func (t *tokens) eraseSoon(after time.Duration) {
	if t.retry != nil || t.closed {
		return
	}
	t.work.Add(1)
	t.retry = time.AfterFunc(after, func() {
		defer t.work.Done()
		t.mu.Lock()
		t.retry = nil
		t.mu.Unlock()
		t.erase()
	})
}

// erase removes the files of tokens that have ended. It returns an error for each
// file that cannot be removed, and schedules another attempt.
func (t *tokens) erase() map[string]error {
	dir := tokenDir(t.stateDir.Path())
	failed := map[string]error{}
	t.mu.Lock()
	for id := range t.ended {
		failed[id] = nil
	}
	t.mu.Unlock()
	for id := range failed {
		if err := os.Remove(filepath.Join(dir, id+tokenSuffix)); !errors.Is(err, fs.ErrNotExist) {
			failed[id] = err
		}
	}
	synced := syncDir(dir)
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, err := range failed {
		if err = errors.Join(err, synced); err == nil {
			delete(t.ended, id)
			delete(failed, id)
			continue
		}
		failed[id] = err
		if logged, is := t.ended[id]; is && !logged {
			t.ended[id] = true
			t.log.Error("a token has ended, but its file could not be removed; deskhand tries again until that is done. If it ends before, remove the file, or the token is valid again",
				"token", id, "error", err)
		}
	}
	if len(t.ended) > 0 {
		t.eraseSoon(eraseRetry)
	}
	return failed
}

// tokenStorage returns the problem for token files that cannot be changed.
func tokenStorage(what string, err error) *Problem {
	k := kind{"stream_error", "Service Unavailable", http.StatusServiceUnavailable}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		k = noSpace
	}
	return k.problem(what+": "+strings.TrimSpace(err.Error())).header(fiber.HeaderRetryAfter, "2")
}
