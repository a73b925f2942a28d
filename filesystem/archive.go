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
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// ArchiveOptions configure Archive. The zero value makes a tar archive without compression.
type ArchiveOptions struct {
	Compression Compression
}

// Archived is the result of Archive.
type Archived struct {
	Entries int
	Bytes   int64 // size of all files together
	Skipped int   // entries that were left out: unreadable, too deep, sockets, FIFOs and devices
	Changed int   // files that became shorter or longer, or unreadable, while they were read
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
// held. Entries more than 255 levels below the directory are skipped and counted.
//
// Nothing is written before name is open. Entries below it that cannot be read are skipped and
// counted. If a file becomes shorter or longer meanwhile, it is filled with zeros or cut off, and
// counted, so that the archive stays valid. After an error the archive is not valid.
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
	pseudo bool // the files are in a file system such as /proc
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
	a.buffer, a.tar, a.pseudo = buffer[:], tar.NewWriter(packed), pseudo(top)
	n, err := nodeOfFile(top)
	switch {
	case err != nil:
	case n.isDir():
		err = a.directory(newFolder(top, p.path), "")
	default:
		err = a.content(top, n, path.Base(p.path))
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

// skip leaves out an entry, and counts it if it exists. It returns nil.
func (a *archiver) skip(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		a.done.Skipped++
	}
	return nil
}

// directory writes the entries of a directory. rel is its name in the archive, empty or with
// a slash at the end.
func (a *archiver) directory(d folder, rel string) error {
	for e, err := range entriesOf(d, a.alive) {
		ended := a.alive()
		switch {
		case ended != nil:
			return ended
		case err != nil && rel == "":
			return err
		case err != nil:
			return a.skip(err)
		case isTemporary(e.Name()):
			continue
		}
		if err := a.entry(d, e.Name(), rel+e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one entry of a directory. It fails only if the archive cannot be written.
func (a *archiver) entry(d folder, name, rel string) error {
	if strings.Count(rel, "/") >= maxLevels {
		return a.skip(ErrTooLarge)
	}
	n, err := d.stat(name)
	switch {
	case err != nil:
		return a.skip(err)
	case n.isLink():
		target, err := d.readlink(name)
		if err != nil {
			return a.skip(err)
		}
		return a.header(n, tar.Header{Typeflag: tar.TypeSymlink, Name: rel, Linkname: target})
	case !n.isDir() && !n.isRegular():
		return a.skip(ErrNotFile)
	}
	file, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return a.skip(err)
	}
	defer file.Close()
	n, err = nodeOfFile(file)
	switch {
	case err == nil && n.isRegular():
		return a.content(file, n, rel)
	case err != nil || !n.isDir() || !a.pseudo && pseudo(file):
		return a.skip(cmp.Or(err, ErrNotFile))
	}
	if err := a.header(n, tar.Header{Typeflag: tar.TypeDir, Name: rel + "/"}); err != nil {
		return err
	}
	return a.directory(newFolder(file, d.child(name)), rel+"/")
}

func (a *archiver) content(file *os.File, n node, rel string) error {
	source := &paddedReader{r: file, alive: a.alive}
	if a.pseudo {
		made, err := readPseudo(file)
		if err != nil {
			return a.skip(err)
		}
		source.r, n.size = bytes.NewReader(made), int64(len(made))
	}
	if err := a.header(n, tar.Header{Typeflag: tar.TypeReg, Name: rel, Size: n.size}); err != nil {
		return err
	}
	a.done.Bytes += n.size
	if _, err := io.CopyBuffer(a.tar, io.LimitReader(source, n.size), a.buffer); err != nil {
		return err
	}
	after, err := nodeOfFile(file)
	if source.ended || !a.pseudo && err == nil && after.size > n.size {
		a.done.Changed++
	}
	return nil
}

// paddedReader reads zeros after the end of r, or after an error of r.
type paddedReader struct {
	r     io.Reader
	alive aliveFunc
	ended bool // r has ended
}

func (p *paddedReader) Read(b []byte) (int, error) {
	if err := p.alive(); err != nil {
		return 0, err
	}
	if !p.ended {
		n, err := p.r.Read(b)
		if n > 0 || err == nil {
			return n, nil
		}
		p.ended = true
	}
	clear(b)
	return len(b), nil
}

// header writes the header of an entry, in the oldest format that can hold its data: PAX for times
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
