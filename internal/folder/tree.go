package folder

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/removetree"
)

const (
	// maxDepth bounds the levels of a walk, which holds one directory of each open.
	maxDepth = 32
	// maxRemoved bounds the entries that RemoveAll removes.
	maxRemoved = 1 << 20
	// cleanTime bounds the removal of the files of a WriteTree that failed.
	cleanTime = 5 * time.Second
)

func list(dir, name string, depth, limit int) (all []Entry, err error) {
	d, err := openBelow(dir, path.Clean(name), false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	err = walk(d, "", func(at string, e fs.DirEntry, d *os.Root) error {
		if limit--; limit < 0 {
			return ErrTooMany
		}
		if e.IsDir() && (e.Name() == ".git" || strings.Count(at, "/") >= min(depth, maxDepth)) {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() {
			return nil
		}
		info, err := d.Lstat(e.Name())
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // the entry was removed
		}
		all = append(all, Entry{at, info.Size(), info.Mode(), info.ModTime()})
		return nil
	})
	return all, withPath(filepath.Join(dir, name), err)
}

// walk calls f with the entries of a directory d and of all directories below it. It
// skips a directory for which f returns fs.SkipDir. It holds all directories on the
// way open, so f must bound the depth.
func walk(d *os.Root, prefix string, f func(at string, e fs.DirEntry, d *os.Root) error) error {
	self, err := d.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	for {
		batch, err := self.ReadDir(256)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range batch {
			at := path.Join(prefix, e.Name())
			err := f(at, e, d)
			if err != nil && !errors.Is(err, fs.SkipDir) {
				return err
			}
			if !e.IsDir() || err != nil {
				continue
			}
			below, err := enter(d, e.Name(), false)
			if err != nil {
				return err
			}
			if err := errors.Join(walk(below, at, f), below.Close()); err != nil {
				return err
			}
		}
	}
}

// writeTree makes the folder under a temporary name and renames it.
func writeTree(ctx context.Context, dir, name string, files []File) (err error) {
	d, base, err := openParent(dir, name, true)
	if err != nil {
		return err
	}
	defer d.Close()
	at := filepath.Join(dir, name)
	temp := ".new-" + rand.Text()
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
			defer cancel()
			err = errors.Join(err, removeIn(ctx, d, temp))
		}
	}()
	if err := d.Mkdir(temp, 0o755); err != nil {
		return withPath(at, err)
	}
	staging, err := enter(d, temp, false)
	if err != nil {
		return withPath(at, err)
	}
	defer staging.Close()
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return withPath(at, err)
		}
		if !filepath.IsLocal(f.Name) {
			return &fs.PathError{Op: "write", Path: filepath.Join(at, f.Name), Err: ErrName}
		}
		if err := errors.Join(staging.MkdirAll(path.Dir(f.Name), 0o755), staging.WriteFile(f.Name, f.Content, f.Mode.Perm())); err != nil {
			return withPath(filepath.Join(at, f.Name), err)
		}
	}
	if err := removeIn(ctx, d, base); err != nil {
		return withPath(at, err)
	}
	return withPath(at, d.Rename(temp, base))
}

func removeAll(ctx context.Context, dir, name string) error {
	d, base, err := openParent(dir, name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return withPath(filepath.Join(dir, name), removeIn(ctx, d, base))
}

// removeIn removes a name from a directory. It follows no link and opens a bounded number of
// directories.
func removeIn(ctx context.Context, d *os.Root, name string) error {
	self, err := d.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	left := maxRemoved
	return removetree.RemoveIn(self, name, func() error {
		if left--; left < 0 {
			return ErrTooMany
		}
		return ctx.Err()
	})
}
