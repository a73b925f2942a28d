package filesystem

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
)

// WriteOptions say how a file is written. The zero value replaces or makes it,
// whole and safe on the disk, or not at all.
type WriteOptions struct {
	// Append adds to the end of the file instead of replacing it.
	Append bool
	// Exclusive fails with fs.ErrExist when there is a file already.
	Exclusive bool
	// IfMatch fails with ErrChanged unless there is a file with that ETag;
	// "*" is any file.
	IfMatch string
	// Mode is the permission bits that the file has afterwards. Zero means
	// those that it had, or 0666 less the umask for a new file.
	Mode fs.FileMode
	// NoSync does not wait for the disk. The file is still replaced as a
	// whole, but a power failure may undo it or, on some file systems, leave
	// it empty.
	NoSync bool
}

// Write writes what r gives to a file and tells how many bytes that were.
func (f *FS) Write(ctx context.Context, name string, r io.Reader, options WriteOptions) (int64, error) {
	const op = "write"
	if err := f.enter(); err != nil {
		return 0, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locateEntry(name)
	if err != nil {
		return 0, f.fail(op, name, err)
	}
	if err := p.tree.MkdirAll(path.Dir(p.name), 0o777); err != nil {
		return 0, f.fail(op, p.path, err)
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if options.Append {
		flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	file, err := p.tree.OpenFile(p.name, flag, 0o666)
	if err != nil {
		return 0, f.fail(op, p.path, err)
	}
	n, err := io.Copy(file, r)
	if err == nil {
		err = ctx.Err()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	return n, f.fail(op, p.path, err)
}
