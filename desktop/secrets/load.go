package secrets

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Load sets a secret to the content of a source: "env:NAME" is a variable of the environment,
// and "file:PATH" is a file, without a line feed at its end. It returns the name of the
// variable, which the caller should not pass on to other programs, or "" for a file.
//
// The file must be a regular file of this program's user or of root, with at most MaxValue
// bytes. Only its owner may write it, and only its owner and its group may read it.
//
// The error wraps an *InvalidError or ErrTooMany of Set, or says why the source cannot be read.
func (s *Store) Load(name, source string) (variable string, err error) {
	kind, from, _ := strings.Cut(source, ":")
	var value string
	switch {
	case from == "":
	case kind == "env":
		var set bool
		if value, set = os.LookupEnv(from); !set {
			return "", fmt.Errorf("secret %s: the variable %s is not set", name, from)
		}
		variable = from
	case kind == "file":
		if value, err = readFile(from); err != nil {
			return "", fmt.Errorf("secret %s: %w", name, err)
		}
	}
	if from == "" || kind != "env" && kind != "file" {
		return "", fmt.Errorf("secret %s: its source must be env:NAME or file:PATH", name)
	}
	if err := s.Set(name, value); err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	return variable, nil
}

func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not block
	if err != nil {
		return "", err
	}
	defer f.Close()
	var info unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &info); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Uid != 0 && int(info.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to another user", path)
	case info.Mode&0o026 != 0:
		return "", fmt.Errorf("%s can be read by all users or written by others than its owner: chmod 600 closes it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxValue+2))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}
