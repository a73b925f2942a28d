package files

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Reach knows which files each token reaches: the server's own token and admin tokens all
// files of the server, and a token of the scope supervise the files of its roots.
// Its methods may be called from any goroutine.
type Reach struct {
	all *filesystem.FS
	own func() []string // the directories of the server's own files

	mu     sync.Mutex // guards what follows
	opened map[*grants.Grant]*filesystem.FS
	closed bool
}

// NewReach returns a Reach of all files. own returns the directories of the server's own
// files, which no token reaches by its roots.
func NewReach(all *filesystem.FS, own func() []string) *Reach {
	return &Reach{all: all, own: own, opened: map[*grants.Grant]*filesystem.FS{}}
}

// CheckRoot returns an error if a token must not get a directory as a root.
func (r *Reach) CheckRoot(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return fmt.Errorf("%s must be an absolute path without . and ..", dir)
	}
	if dir == "/" {
		return errors.New("/ has the files of the server; name a directory below it")
	}
	if _, err := r.all.Stat(dir); err != nil {
		return err
	}
	for _, own := range r.own() {
		if real, err := filepath.EvalSymlinks(own); err == nil { // it need not exist yet
			own = real
		}
		if within(own, dir) || within(dir, own) {
			return fmt.Errorf("%s overlaps %s, which has the tokens or recordings of the server", dir, own)
		}
	}
	files, err := open([]string{dir})
	if err != nil {
		return err
	}
	return files.Close()
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// open opens directories. Their names are their paths, which differ.
func open(dirs []string) (*filesystem.FS, error) {
	roots := make([]filesystem.Root, len(dirs))
	for i, dir := range dirs {
		roots[i] = filesystem.Root{Name: dir, Path: dir, NoLinks: true}
	}
	return filesystem.Open(filesystem.Config{Roots: roots, Home: dirs[0]})
}

// of returns the file system of a token's files. It stays open until the token ends.
func (r *Reach) of(g *grants.Grant) (*filesystem.FS, error) {
	if g == nil || g.Scope == grants.ScopeAdmin {
		return r.all, nil
	}
	if len(g.Roots) == 0 {
		return nil, rest.PermissionDenied.Problem("permission denied: this token reaches no files; ask for a token with roots")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if files := r.opened[g]; files != nil {
		return files, nil
	}
	switch {
	case r.closed:
		return nil, rest.Closing()
	case g.Over():
		return nil, rest.TokenOver()
	}
	for _, dir := range g.Roots { // another server may have checked them, or this one with other flags
		if err := r.CheckRoot(dir); err != nil {
			return nil, rest.PermissionDenied.Problem("permission denied: roots of this token: " + err.Error() + "; make another token on this server")
		}
	}
	files, err := open(g.Roots)
	if err != nil {
		return nil, err
	}
	r.opened[g] = files
	context.AfterFunc(g.Context(), func() {
		r.mu.Lock()
		delete(r.opened, g)
		r.mu.Unlock()
		_ = files.Close() // it returns nil
	})
	return files, nil
}

// Close closes the files of tokens.
func (r *Reach) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var err error
	for _, files := range r.opened {
		err = errors.Join(err, files.Close())
	}
	return err
}
