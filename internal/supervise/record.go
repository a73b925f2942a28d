package supervise

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	recordSuffix = ".group"
	recordLimit  = 4 << 10
)

// isRecordName reports whether a file name is a record's: "<token>.group".
func isRecordName(name string) bool {
	token, ok := strings.CutSuffix(name, recordSuffix)
	_, err := hex.DecodeString(token)
	return ok && err == nil && len(token) == 32
}

// record describes a group for a later sweep.
type record struct {
	Token string `json:"token"`
	PID   int    `json:"pid"`  // of the group's program, for information
	Boot  string `json:"boot"` // no process survives a boot
	Since uint64 `json:"since"`
	Mark  mark   `json:"mark,omitempty"` // of the group's program
	Owner string `json:"owner"`
}

// recordFile is a record on disk, and the lock on it. The kernel releases the lock when
// the program ends.
type recordFile struct {
	path string
	f    *os.File
}

// writeRecord writes a record and locks it.
func writeRecord(dir string, r record) (*recordFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, r.Token+recordSuffix)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		rf := &recordFile{path: path, f: f}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			_ = rf.close(true)
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		if !rf.current() {
			// A sweep took the empty file for a dead program's and removed it.
			_ = f.Close()
			continue
		}
		if _, err := f.Write(b); err != nil {
			_ = rf.close(true)
			return nil, err
		}
		return rf, nil
	}
}

// current reports whether the path still leads to the file.
func (rf *recordFile) current() bool {
	a, err1 := rf.f.Stat()
	b, err2 := os.Lstat(rf.path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// close removes the file if remove is set, and releases the lock.
func (rf *recordFile) close(remove bool) error {
	var err error
	if remove {
		if err = os.Remove(rf.path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	// Closing alone does not release it while a child that is about to execute its
	// program has a copy of the descriptor.
	_ = unix.Flock(int(rf.f.Fd()), unix.LOCK_UN)
	return errors.Join(err, rf.f.Close())
}

// errAlive says that the program that wrote a record still runs.
var errAlive = errors.New("its program is alive")

// lockRecord locks and reads the record of a dead program. It returns an empty record if
// the file holds no token, because its writer was killed before the write.
func lockRecord(path string) (*recordFile, record, error) {
	// The record names processes to kill, so only this user may have written it.
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, record{}, err
	}
	rf := &recordFile{path: path, f: f}
	r, err := rf.lockAndRead()
	if err != nil {
		_ = f.Close()
		return nil, record{}, err
	}
	return rf, r, nil
}

func (rf *recordFile) lockAndRead() (record, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(rf.f.Fd()), &st); err != nil {
		return record{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return record{}, fmt.Errorf("record %s: other users may have written it", rf.path)
	}
	switch err := unix.Flock(int(rf.f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == unix.EWOULDBLOCK:
		return record{}, errAlive
	case err != nil:
		return record{}, &os.PathError{Op: "lock", Path: rf.path, Err: err}
	}
	b, err := io.ReadAll(io.LimitReader(rf.f, recordLimit))
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.Token+recordSuffix != filepath.Base(rf.path) {
		return record{}, nil //nolint:nilerr // not a record, so there is nothing to sweep
	}
	return r, nil
}
