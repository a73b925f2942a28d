package grants

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Each token has a file. Revoking a token removes its file, which works on a full
// disk too.

// tokenDir returns the directory of the token files in a state directory.
func tokenDir(stateDir string) string { return filepath.Join(stateDir, "tokens") }

const tokenSuffix = ".json"

// readTokens reads the files of all tokens. It logs a damaged file and skips it.
func readTokens(dir string, log *slog.Logger) ([]*Grant, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var grants []*Grant
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		g := new(Grant)
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

// writeToken creates the file of a new token and syncs it to disk.
func writeToken(dir string, g *Grant) (err error) {
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

// forgetFiles removes the files of a desktop's tokens. It needs no log of sessions, unlike load.
func (t *Store) forgetFiles(desktopID string) error {
	t.loading.Lock()
	defer t.loading.Unlock()
	dir, err := t.StateDir.Claim()
	if err != nil {
		return err
	}
	dir = tokenDir(dir)
	grants, err := readTokens(dir, t.Logger)
	for _, g := range grants {
		if g.Desktop == desktopID {
			err = errors.Join(err, os.Remove(filepath.Join(dir, g.ID+tokenSuffix)))
		}
	}
	return errors.Join(err, syncDir(dir))
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

// eraseSoon schedules calls of loadUnread and erase after a while, unless one is scheduled. The
// caller has mu.
func (t *Store) eraseSoon(after time.Duration) {
	if t.retry != nil || t.closed {
		return
	}
	t.work.Add(1)
	t.retry = time.AfterFunc(after, func() {
		defer t.work.Done()
		t.mu.Lock()
		t.retry = nil
		t.mu.Unlock()
		t.loadUnread()
		t.erase()
	})
}

// erase removes the files of tokens that have ended. It returns an error for each
// file that cannot be removed, and schedules another attempt.
func (t *Store) erase() map[string]error {
	dir := tokenDir(t.StateDir.Path())
	failed := map[string]error{}
	var shared []string
	t.mu.Lock()
	for id, e := range t.ended {
		if failed[id] = nil; e.shared {
			shared = append(shared, id)
		}
	}
	t.mu.Unlock()
	if len(shared) > 0 {
		err := t.eraseShared(shared)
		for _, id := range shared {
			failed[id] = err
		}
	}
	for id := range failed {
		if slices.Contains(shared, id) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, id+tokenSuffix)); !errors.Is(err, fs.ErrNotExist) {
			failed[id] = err
		}
	}
	synced := syncDir(dir)
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, err := range failed {
		if !slices.Contains(shared, id) {
			err = errors.Join(err, synced)
		}
		if err == nil {
			delete(t.ended, id)
			delete(failed, id)
			continue
		}
		failed[id] = err
		if e := t.ended[id]; e != nil && !e.logged && e.shared {
			e.logged = true
			t.Logger.Error("a token has ended, but the log of sessions does not have that yet; deskhand tries again until it has. If it ends before, the token is valid again",
				"token", id, "error", err)
		} else if e != nil && !e.logged {
			e.logged = true
			t.Logger.Error("a token has ended, but its file could not be removed; deskhand tries again until that is done. If it ends before, remove the file, or the token is valid again",
				"token", id, "error", err)
		}
	}
	if len(t.ended)+len(t.unread) > 0 {
		t.eraseSoon(eraseRetry)
	}
	return failed
}
