package filesystem

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is a regular file open for reading, by one goroutine at a time. It must
// be closed.
type File struct {
	io.ReadSeeker
	io.ReaderAt

	file  *os.File // nil when the content is in memory
	entry Entry
	tag   string
}

// OpenFile opens a regular file for reading, following symbolic links. FIFOs,
// sockets and devices are refused with ErrNotFile, as are directories; opening
// never blocks.
//
// Files of /proc, /sys and the like, whose size the system does not tell, are
// read at once: at most 16 MiB, else the error is ErrTooLarge, and for 3
// seconds at most. One that waits for events, as /proc/kmsg does, or does not
// end, is refused with ErrEndless.
func (f *FS) OpenFile(name string) (*File, error) {
	const op = "open"
	if err := f.enter(); err != nil {
		return nil, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locateEntry(name)
	if err != nil {
		return nil, f.fail(op, name, err)
	}
	info, err := p.tree.Stat(p.name) // for opening a device may have effects
	if err == nil {
		err = mustBeFile(info.Mode())
	}
	if err != nil {
		return nil, f.fail(op, p.path, err)
	}
	file, err := p.tree.OpenFile(p.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.fail(op, p.path, err)
	}
	opened, err := newFile(p.path, file)
	if err != nil {
		file.Close()
		return nil, f.fail(op, p.path, err)
	}
	return opened, nil
}

// newFile takes over an open file, unless it fails.
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

// mustBeFile refuses all but regular files.
func mustBeFile(mode fs.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return &Error{Problem: "path is not a file", Remedy: "it is " + kindOf(mode), Kind: ErrNotFile}
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

// Entry describes the file as it was when it was opened. Its size is that of
// the content.
func (f *File) Entry() Entry { return f.entry }

// ETag names the state of the file when it was opened: Entry's ETag, or for
// content in memory one made of that.
func (f *File) ETag() string { return f.tag }

// File is the open file, for who wants the system to send it; it is nil when
// the content is in memory, as that of the files of /proc and /sys is. Close of
// f closes it.
func (f *File) File() *os.File { return f.file }

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
