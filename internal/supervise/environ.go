package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotFound says that a program does not exist, or is not in a directory of PATH.
var ErrNotFound = errors.New("program not found")

// defaultPath is searched when an environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environ returns base with the entries of set applied. Each name appears once, at its
// first position and with its last value. An entry of set without "=" removes a name.
func Environ(base []string, set ...string) []string {
	out := make([]string, 0, len(base)+len(set))
	at := make(map[string]int, len(base)+len(set))
	put := func(entry string) {
		name, _, ok := strings.Cut(entry, "=")
		i, seen := at[name]
		switch {
		case !ok && seen:
			out[i] = "" // dropped below
			delete(at, name)
		case !ok:
		case seen:
			out[i] = entry
		default:
			at[name] = len(out)
			out = append(out, entry)
		}
	}
	for _, e := range base {
		if strings.Contains(e, "=") {
			put(e)
		}
	}
	for _, e := range set {
		put(e)
	}
	return slices.DeleteFunc(out, func(e string) bool { return e == "" })
}

// lookup returns the last value of a variable.
func lookup(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// LookPath finds a program for a child with an environment (nil: this program's). It
// looks up a name without a slash in the environment's PATH, without its relative
// directories. It checks a path with a slash.
//
// It returns [ErrNotFound] if there is no such file, and fs.ErrPermission if the
// file may not be executed.
func LookPath(file string, env []string) (string, error) {
	if env == nil {
		env = os.Environ()
	}
	if file == "" {
		return "", fmt.Errorf("look up %q: %w", file, ErrNotFound)
	}
	if strings.Contains(file, "/") {
		if err := executable(file); err != nil {
			return "", fmt.Errorf("look up %q: %w", file, err)
		}
		return file, nil
	}
	path, ok := lookup(env, "PATH")
	if !ok {
		path = defaultPath
	}
	refusal := ErrNotFound
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		full := filepath.Join(dir, file)
		err := executable(full)
		if err == nil {
			return full, nil
		}
		// A directory that this user may not search has no program for this user.
		if pe := (*os.PathError)(nil); errors.As(err, &pe) && pe.Op == opExecute {
			refusal = err
		}
	}
	return "", fmt.Errorf("look up %q: %w", file, refusal)
}

// opExecute is the operation of the errors about files that may not be executed.
const opExecute = "execute"

// executable returns an error unless this user may execute the file.
func executable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return ErrNotFound
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return &os.PathError{Op: opExecute, Path: path, Err: unix.EACCES}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: opExecute, Path: path, Err: err}
	}
	return nil
}
