package filesystem

import (
	"os"
	"syscall"
)

// File is a regular file open for reading. It must be closed.
type File struct {
	file  *os.File
	entry Entry
}

// OpenFile opens a regular file for reading, following symbolic links. FIFOs,
// sockets and devices are refused with ErrNotFile, as are directories; opening
// never blocks.
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
	info, err := p.tree.Stat(p.name) // opening a device may have effects
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
	if info, err = file.Stat(); err == nil {
		err = mustBeFile(info.Mode())
	}
	if err != nil {
		file.Close()
		return nil, f.fail(op, p.path, err)
	}
	return &File{file: file, entry: newEntry(p.path, nodeOfInfo(info))}, nil
}

func mustBeFile(mode os.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return &Error{Problem: "path is not a file", Remedy: "it is " + kindOf(mode), Kind: ErrNotFile}
}

func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&os.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&os.ModeSocket != 0:
		return "a socket"
	case mode&os.ModeDevice != 0:
		return "a device"
	case mode&os.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// Entry describes the file as it was when it was opened.
func (f *File) Entry() Entry { return f.entry }

// ETag is that of Entry.
func (f *File) ETag() string { return f.entry.ETag() }

// File is the open file, for who wants the system to send it; it is nil when
// the content is in memory, as that of the files of /proc and /sys is. It is
// closed with Close of f.
func (f *File) File() *os.File { return f.file }

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) { return f.file.Read(p) }

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.file.Seek(offset, whence) }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
