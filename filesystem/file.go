package filesystem

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is a regular file that is open for reading, by one goroutine at a time. It must be
// closed.
type File struct {
	io.ReadSeeker
	io.ReaderAt

	file  *os.File // nil if the content is in memory
	entry Entry
	tag   string
}

// OpenFile opens a regular file for reading, and follows symbolic links. The error is
// ErrNotFile for FIFOs, sockets, devices and directories, which OpenFile does not open.
//
// OpenFile reads files of /proc, /sys and the like, whose size the system does not report, into
// memory. It reads for at most 3 seconds. The error is ErrTooLarge for more than 16 MiB, and
// ErrEndless for a file that waits for events, such as /proc/kmsg, or has no end after that
// time.
func (f *FS) OpenFile(name string) (opened *File, err error) {
	err = f.call("open", name, f.locateEntry, func(p place) error {
		info, err := p.tree.Stat(p.name) // before opening, which can have an effect on a device
		if err == nil {
			err = mustBeFile(info.Mode())
		}
		if err != nil {
			return err
		}
		file, err := p.tree.OpenFile(p.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		if opened, err = newFile(p.path, file); err != nil {
			file.Close()
		}
		return err
	})
	return opened, err
}

// newFile makes a File of an open file, which the File closes. After an error the caller
// closes it.
func newFile(name string, file *os.File) (*File, error) {
	n, err := nodeOfFile(file)
	if err != nil {
		return nil, err
	}
	if err := mustBeFile(n.mode); err != nil {
		return nil, err
	}
	f := &File{file: file, ReadSeeker: file, ReaderAt: file, entry: newEntry(name, n)}
	f.tag = f.entry.ETag()
	if n.size > 0 && !pseudo(file) {
		return f, nil
	}
	content, err := readPseudo(file)
	if err != nil {
		return nil, err
	}
	if len(content) == 0 && n.size == 0 {
		return f, nil
	}
	file.Close()
	r := bytes.NewReader(content)
	f.file, f.ReadSeeker, f.ReaderAt = nil, r, r
	f.entry.Size, f.tag = int64(len(content)), contentTag(content)
	return f, nil
}

// mustBeFile returns ErrNotFile unless a file is regular.
func mustBeFile(mode fs.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return &Error{Reason: "path is not a file", Remedy: "it is " + kindOf(mode), Kind: ErrNotFile}
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return "a device"
	case fs.ModeSymlink:
		return "a symbolic link"
	default:
		return "a special file"
	}
}

// Entry describes the file when it was opened. Its size is the size of the content.
func (f *File) Entry() Entry { return f.entry }

// ETag returns the entity tag of the file when it was opened. It is the tag of Entry, or a
// hash if the content is in memory.
func (f *File) ETag() string { return f.tag }

// File returns the open file, for sendfile(2). It is nil if the content is in memory, as for
// files of /proc and /sys. Close of f closes it.
func (f *File) File() *os.File { return f.file }

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
