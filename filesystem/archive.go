package filesystem

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// ArchiveOptions configure Archive. The zero value makes a tar archive without compression.
type ArchiveOptions struct {
	Compression Compression
}

// maxNotes bounds the notes of an Archived.
const maxNotes = 1024

// Archived is the result of Archive.
type Archived struct {
	Entries int
	Bytes   int64  // size of all files together
	Skipped int    // entries that were left out: unreadable, sockets, FIFOs and devices
	Changed int    // files whose size changed while they were read
	Notes   []Note // about skipped entries and changed files; the first 1024
}

// Note is a text about a path.
type Note struct {
	Path string // absolute
	Text string
}

// Archive writes a directory, or a single file, as a tar archive. An empty name is where
// relative paths begin.
//
// The entries are sorted. Their names are relative to the directory, which has no entry
// itself. Symbolic links stay links and are not followed, except for name. Each name of a file
// with several names has the content. Temporary files of Write and Extract are left out, and
// so are file systems such as /proc and /sys below the directory.
//
// Memory does not depend on the size of files. The names of one directory of each level are
// held.
//
// Nothing is written before name is open. Entries below it that cannot be read are skipped and
// noted. If a file becomes shorter or longer meanwhile, it is filled with zeros or cut off, and
// noted, so that the archive is valid. After an error the archive is not valid.
func (f *FS) Archive(ctx context.Context, name string, w io.Writer, options ArchiveOptions) (Archived, error) {
	a := &archiver{fs: f, alive: f.alive(ctx)}
	err := f.call("archive", name, f.locate, func(p place) error { return a.run(p, w, options) })
	return a.done, err
}

// archiver writes one archive.
type archiver struct {
	fs     *FS
	alive  aliveFunc
	tar    *tar.Writer
	buffer []byte
	made   bool // the files are in a file system such as /proc
	done   Archived
}

func (a *archiver) run(p place, w io.Writer, options ArchiveOptions) error {
	info, err := p.tree.Stat(p.name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if err := mustBeFile(info.Mode()); err != nil {
			return err
		}
	}
	top, err := p.tree.OpenFile(p.name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	packed, err := packer(w, options.Compression)
	if err != nil {
		return err
	}
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	a.buffer, a.tar, a.made = buffer[:], tar.NewWriter(packed), pseudo(top)
	n, err := nodeOfFile(top)
	switch {
	case err != nil:
	case n.isDir():
		err = a.directory(newFolder(top, p.path), "")
	default:
		err = a.content(top, p.path, path.Base(p.path))
	}
	if err == nil {
		err = a.tar.Close()
	}
	if err == nil {
		err = packed.finish()
	}
	return err
}

// packing compresses data. finish writes the rest.
type packing struct {
	io.Writer

	finish func() error
}

func packer(w io.Writer, c Compression) (packing, error) {
	out := bufio.NewWriterSize(w, readAhead)
	switch c {
	case CompressionAuto, CompressionNone:
		return packing{out, out.Flush}, nil
	case CompressionGzip:
		z := gzip.NewWriter(out)
		return packing{z, func() error { return errors.Join(z.Close(), out.Flush()) }}, nil
	case CompressionZstd:
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow))
		if err != nil {
			return packing{}, err
		}
		return packing{z, func() error { return errors.Join(z.Close(), out.Flush()) }}, nil
	}
	return packing{}, unknownCompression(c)
}

// zstdWindow bounds the distance of references in a compressed archive.
const zstdWindow = 2 << 20

// reason returns the reason of an error.
func (f *FS) reason(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	problem, _, _ := f.explain(err)
	return problem
}

func (a *archiver) note(name, text string) {
	if len(a.done.Notes) < maxNotes {
		a.done.Notes = append(a.done.Notes, Note{Path: name, Text: text})
	}
}

func (a *archiver) skip(name, why string) {
	a.done.Skipped++
	a.note(name, why)
}

// directory writes the entries of a directory. rel is its name in the archive, empty or with
// a slash at the end.
func (a *archiver) directory(d folder, rel string) error {
	last := ""
	for more := true; more; {
		var names []string
		var err error
		if names, more, err = namesAfter(d, last, searchPage, a.alive); err != nil {
			if ended := a.alive(); ended != nil || rel == "" {
				return cmp.Or(ended, err)
			}
			a.skip(d.path, a.fs.reason(err))
			more = false
		}
		for _, last = range names {
			if err := a.alive(); err != nil {
				return err
			}
			if isTemporary(last) {
				continue
			}
			if err := a.entry(d, last, rel+last); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry writes one entry of a directory. It fails only if the archive cannot be written.
func (a *archiver) entry(d folder, name, rel string) error {
	n, err := d.stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		a.skip(d.child(name), a.fs.reason(err))
		return nil
	case n.isLink():
		return a.link(d, name, rel, n)
	case !n.isDir() && !n.isRegular():
		a.skip(d.child(name), kindOf(n.mode))
		return nil
	}
	file, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		a.skip(d.child(name), a.fs.reason(err))
		return nil
	}
	defer file.Close()
	if !n.isDir() {
		return a.content(file, d.child(name), rel)
	}
	return a.subdirectory(newFolder(file, d.child(name)), rel)
}

func (a *archiver) subdirectory(d folder, rel string) error {
	n, err := d.self()
	switch {
	case err != nil:
		a.skip(d.path, a.fs.reason(err))
		return nil
	case !n.isDir():
		a.skip(d.path, kindOf(n.mode))
		return nil
	case !a.made && pseudo(d.file):
		a.skip(d.path, "made by the system")
		return nil
	}
	if err := a.header(n, tar.Header{Typeflag: tar.TypeDir, Name: rel + "/"}); err != nil {
		return err
	}
	return a.directory(d, rel+"/")
}

func (a *archiver) link(d folder, name, rel string, n node) error {
	target, err := d.readlink(name)
	if err != nil {
		a.skip(d.child(name), a.fs.reason(err))
		return nil
	}
	return a.header(n, tar.Header{Typeflag: tar.TypeSymlink, Name: rel, Linkname: target})
}

// content writes a regular file.
func (a *archiver) content(file *os.File, name, rel string) error {
	n, err := nodeOfFile(file)
	if err == nil {
		err = mustBeFile(n.mode)
	}
	if err != nil {
		a.skip(name, a.fs.reason(err))
		return nil
	}
	source := io.Reader(file)
	if a.made {
		made, err := readPseudo(file)
		if err != nil {
			a.skip(name, a.fs.reason(err))
			return nil
		}
		source, n.size = bytes.NewReader(made), int64(len(made))
	}
	if err := a.header(n, tar.Header{Typeflag: tar.TypeReg, Name: rel, Size: n.size}); err != nil {
		return err
	}
	a.done.Bytes += n.size
	read, problem, err := a.copy(source, n.size)
	if err != nil {
		return err
	}
	after, err := nodeOfFile(file)
	switch {
	case problem != nil:
		a.done.Changed++
		a.note(name, "zeros from byte "+strconv.FormatInt(read, 10)+" on: "+a.fs.reason(problem))
	case read < n.size:
		a.done.Changed++
		a.note(name, "became shorter while it was read: zeros from byte "+strconv.FormatInt(read, 10)+" on")
	case !a.made && err == nil && after.size > n.size:
		a.done.Changed++
		a.note(name, "became longer while it was read: cut off at byte "+strconv.FormatInt(n.size, 10))
	}
	return nil
}

// copy writes exactly size bytes into the archive, with zeros if the file has fewer. It
// returns how many bytes it read, and the error that ended the reading.
func (a *archiver) copy(source io.Reader, size int64) (read int64, problem, err error) {
	for read < size {
		if err := a.alive(); err != nil {
			return read, nil, err
		}
		n, err := source.Read(a.buffer[:min(int64(len(a.buffer)), size-read)])
		if _, err := a.tar.Write(a.buffer[:n]); err != nil {
			return read, nil, err
		}
		read += int64(n)
		if err != nil {
			if err != io.EOF {
				problem = err
			}
			break
		}
	}
	if read < size {
		clear(a.buffer)
	}
	for left := size - read; left > 0; {
		if err := a.alive(); err != nil {
			return read, nil, err
		}
		n, err := a.tar.Write(a.buffer[:min(int64(len(a.buffer)), left)])
		if err != nil {
			return read, nil, err
		}
		left -= int64(n)
	}
	return read, problem, nil
}

// header writes the header of an entry, in the oldest format that has its data: PAX for times
// with fractions of seconds, GNU for names that are not UTF-8, which PAX does not permit.
func (a *archiver) header(n node, h tar.Header) error {
	h.Mode = int64(n.raw &^ unix.S_IFMT)
	h.Uid, h.Gid, h.ModTime = int(n.uid), int(n.gid), n.modified
	switch {
	case !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname):
		h.Format = tar.FormatGNU
	case n.modified.Nanosecond() != 0:
		h.Format = tar.FormatPAX
	}
	a.done.Entries++
	return a.tar.WriteHeader(&h)
}
