package filesystem

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Limits for files whose size the system does not know.
const (
	pseudoSize = 16 << 20
	pseudoTime = 3 * time.Second
)

// pseudo reports whether the system generates the content of a file during reads, so that the
// size of the file has no meaning.
func pseudo(file *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(file.Fd()), &st) != nil {
		return false
	}
	switch uint32(st.Type) { // its type differs between architectures, the numbers fit
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC,
		unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.BINFMTFS_MAGIC, unix.BPF_FS_MAGIC, unix.RDTGROUP_SUPER_MAGIC:
		return true
	}
	return false
}

// readPseudo reads such a file into memory. The file is open with O_NONBLOCK, so a file that
// waits for events returns EAGAIN or supports deadlines.
func readPseudo(file *os.File) ([]byte, error) {
	start := time.Now()
	_ = file.SetReadDeadline(start.Add(pseudoTime)) // most such files have no deadlines
	var content bytes.Buffer
	chunk := make([]byte, 64<<10)
	for {
		n, err := file.Read(chunk)
		content.Write(chunk[:n])
		switch {
		case err == io.EOF:
			return content.Bytes(), nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &Error{
				Reason: "file waits for events and does not end", Remedy: "read it with a process", Kind: ErrEndless, Err: err,
			}
		case err != nil:
			return nil, err
		case content.Len() > pseudoSize:
			return nil, newError(ErrTooLarge, "", fmt.Sprintf("file made by the system has more than %d MiB", pseudoSize>>20), "read it with a process")
		case time.Since(start) > pseudoTime:
			return nil, newError(ErrEndless, "", fmt.Sprintf("file made by the system has no end after %v", pseudoTime), "read it with a process")
		}
	}
}

// contentTag returns an ETag of the content.
func contentTag(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf(`"%x"`, sum[:16])
}
