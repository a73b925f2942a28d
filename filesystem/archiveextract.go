package filesystem

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ExtractOptions say what an archive may be. In each limit, zero is the default
// and a negative number is no limit.
type ExtractOptions struct {
	// Compression is how the archive is packed. Empty means that the first
	// bytes tell.
	Compression Compression
	// MaxEntries bounds the entries of the archive. Zero means 1,000,000.
	MaxEntries int
	// MaxBytes bounds the size of all files together; holes in sparse files
	// count. Zero means 1 TiB.
	MaxBytes int64
	// MaxRatio bounds how many times larger than the archive its content may
	// be. It is not looked at before 64 MiB. Zero means 500; what deflate can
	// do at most is 1032, with nothing but zeros.
	MaxRatio int
	// MaxDepth bounds how many directories lie within each other. Zero means
	// 255.
	MaxDepth int
	// NoSync does not wait for the disk, see WriteOptions.
	NoSync bool
}

func (o ExtractOptions) withDefaults() ExtractOptions {
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<40)
	o.MaxRatio = cmp.Or(o.MaxRatio, 500)
	o.MaxDepth = cmp.Or(o.MaxDepth, maxName)
	return o
}

// maxExtractedPaths is how many paths an Extracted tells.
const maxExtractedPaths = 1024

// Extracted tells what Extract put into its directory.
type Extracted struct {
	Paths     []string // absolute, in the order of the archive; the first 1024
	Truncated bool     // there are more than that
	Entries   int      // files, directories and links
	Bytes     int64    // size of all files together
}

// Extract unpacks a tar archive, which may be compressed with gzip or zstd, into
// a directory, which is made where it is missing. An empty name is where
// relative paths begin. It reads the archive as a stream and needs the same
// memory for any file size.
//
// It does all or nothing. Entries are unpacked into a hidden directory in the
// destination, each one checked as it arrives; when the archive was read to its
// end and every entry can take its place, they are moved there. Before that
// nothing in the destination has changed, whatever goes wrong; the moves
// themselves only fail when something else interferes with them.
//
// A directory of the archive joins one that exists, which keeps its mode. A file
// or link replaces a file or link. A file in the place of a directory, or a
// directory in that of a file, is refused with fs.ErrExist. Existing symbolic
// links are followed where the archive has a directory, if they lead to one in
// the destination, else refused with ErrOutside.
//
// Names that are absolute or hold "..", symbolic links out of the destination,
// hard links to anything but an earlier file of the archive, entries below a
// symbolic link of the archive, devices and FIFOs are refused with ErrArchive,
// as is an archive that is damaged or ends early. The limits of the options
// give ErrTooLarge.
//
// Mode (without setuid, setgid and sticky bits) and time of modification are
// kept, owners and other attributes are not. Holes in sparse files stay holes.
//
// Extract ends early with ctx only when a Read of r returns.
func (f *FS) Extract(ctx context.Context, name string, r io.Reader, options ExtractOptions) (Extracted, error) {
	const op = "extract"
	if err := f.enter(); err != nil {
		return Extracted{}, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locate(name)
	if err != nil {
		return Extracted{}, f.fail(op, name, err)
	}
	options = options.withDefaults()
	alive := f.alive(ctx)
	stream, err := openTar(r, options, alive)
	if err != nil {
		return Extracted{}, f.fail(op, p.path, err)
	}
	defer stream.close()
	x := &extraction{fs: f, place: p, options: options, stream: stream, alive: alive}
	if err := x.run(); err != nil {
		return Extracted{}, f.fail(op, p.path, err)
	}
	return x.done, nil
}

// run prepares the destination, unpacks, and cleans up behind both.
func (x *extraction) run() (err error) {
	var made []string
	x.dest, made, err = openOrMake(x.place)
	defer func() {
		if err == nil {
			return
		}
		for i := len(made) - 1; i >= 0; i-- {
			_ = x.place.tree.Remove(made[i]) // fails when somebody else put something there
		}
	}()
	if err != nil {
		return err
	}
	defer x.dest.close()
	x.fs.sweep(x.dest, x.alive)
	if x.stage, err = openStage(x.dest); err != nil {
		return err
	}
	defer x.stage.remove()
	err = x.unpack()
	x.leaveLevels(0)
	if err != nil {
		return err
	}
	return x.moveIn()
}

// openOrMake opens a directory, and makes it first where it is missing. It
// tells which names of the tree it made, outermost first.
func openOrMake(p place) (d folder, made []string, err error) {
	d, err = openFolder(p, folderRead)
	if !errors.Is(err, unix.ENOENT) {
		return d, nil, err
	}
	parts := strings.Split(p.name, "/")
	for i := range parts {
		name := strings.Join(parts[:i+1], "/")
		err := p.tree.Mkdir(name, 0o777)
		switch {
		case err == nil:
			made = append(made, name)
		case !errors.Is(err, unix.EEXIST):
			return folder{}, made, at(path.Join(strings.TrimSuffix(p.path, p.name), name), err)
		}
	}
	d, err = openFolder(p, folderRead)
	return d, made, err
}

// unpack reads the archive into the staging directory.
func (x *extraction) unpack() error {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	x.buffer = buffer[:]
	archive := tar.NewReader(x.stream)
	last := ""
	for seen := 0; ; seen++ {
		before := x.stream.n
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && x.stream.source.err == nil:
			return x.stream.end(x.stream.n - before)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // names are looked at here
			return x.stream.explain(err, last)
		case x.options.MaxEntries >= 0 && seen >= x.options.MaxEntries:
			return tooLarge("archive has more than " + strconv.Itoa(x.options.MaxEntries) + " entries (MaxEntries)")
		}
		last = h.Name
		if err := x.entry(h, archive); err != nil {
			return err
		}
	}
}

// entry unpacks one entry.
func (x *extraction) entry(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader, 'V': // what holds for all entries, and the name of a tape
		return nil
	}
	parts, err := x.entryParts(h.Name)
	if err != nil {
		return err
	}
	kind := h.Typeflag
	if kind == tar.TypeReg && strings.HasSuffix(h.Name, "/") && h.Size == 0 {
		kind = tar.TypeDir // as the oldest tar programs write them
	}
	if len(parts) == 0 {
		if kind == tar.TypeDir {
			return nil // the destination itself
		}
		return refused(h.Name, "archive has a file in the place of the destination", "")
	}
	switch kind {
	case tar.TypeDir:
		err = x.directory(h, parts)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		err = x.file(h, parts, content)
	case tar.TypeSymlink:
		err = x.symlink(h, parts)
	case tar.TypeLink:
		err = x.hardLink(h, parts)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return refused(h.Name, "archive has a device or FIFO", "")
	default:
		return refused(h.Name, "archive has an entry of the unknown kind "+strconv.QuoteRune(rune(kind)), "")
	}
	if err != nil {
		return x.explainEntry(err, h.Name)
	}
	x.done.Entries++
	if len(x.done.Paths) < maxExtractedPaths {
		x.done.Paths = append(x.done.Paths, path.Join(x.place.path, strings.Join(parts, "/")))
	} else {
		x.done.Truncated = true
	}
	return nil
}

// directory makes a directory. Its mode and time wait until all is in it.
func (x *extraction) directory(h *tar.Header, parts []string) error {
	l, err := x.enterLevel(parts)
	if err != nil || l.merges {
		return err
	}
	x.folders = append(x.folders, stagedFolder{path: l.path, mode: permissions(h), modified: h.ModTime})
	return nil
}

// permissions are those of an entry, without setuid, setgid and sticky bits.
func permissions(h *tar.Header) uint32 { return uint32(h.Mode) & 0o777 }

// file unpacks a regular file.
func (x *extraction) file(h *tar.Header, parts []string, content io.Reader) error {
	if x.options.MaxBytes >= 0 && h.Size > x.options.MaxBytes-x.done.Bytes {
		return tooLarge("archive expands to more than " + strconv.FormatInt(x.options.MaxBytes, 10) + " bytes (MaxBytes)")
	}
	l, name, err := x.parentLevel(parts)
	if err != nil {
		return err
	}
	fd := -1
	err = x.create(l, name, isRegular, func() (err error) {
		fd, err = unix.Openat(l.stage.fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := x.fill(fd, h, content); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, permissions(h)); err != nil {
		return err
	}
	return setTime(l.stage.fd, name, h.ModTime)
}

// setTime sets the time of modification of an entry, not following it.
func setTime(dir int, name string, modified time.Time) error {
	at, err := unix.TimeToTimespec(modified)
	if err != nil {
		return err // on arm, a time after 2038
	}
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// symlink makes a symbolic link.
func (x *extraction) symlink(h *tar.Header, parts []string) error {
	l, name, err := x.parentLevel(parts)
	if err != nil {
		return err
	}
	if err := x.checkTarget(h.Name, splitPath(l.path), h.Linkname); err != nil {
		return err
	}
	err = x.create(l, name, isLink, func() error { return unix.Symlinkat(h.Linkname, l.stage.fd, name) })
	if err != nil {
		return err
	}
	return setTime(l.stage.fd, name, h.ModTime)
}

// hardLink makes another name for a file that the archive had before.
func (x *extraction) hardLink(h *tar.Header, parts []string) error {
	target, err := x.entryParts(h.Linkname)
	if err != nil || len(target) == 0 {
		return refused(h.Name, "archive has a hard link to an invalid path", "it is "+printable(h.Linkname))
	}
	file, err := x.openStaged(target)
	if err != nil {
		return refused(h.Name, "archive has a hard link to what is no file that came before it",
			"it is "+printable(h.Linkname))
	}
	defer file.Close()
	l, name, err := x.parentLevel(parts)
	if err != nil {
		return err
	}
	if n, err := nodeOfFile(file); err == nil {
		if old, err := l.stage.stat(name); err == nil && old.is(n) {
			return nil // it has that name
		}
	}
	return x.create(l, name, isRegular, func() error {
		return unix.Linkat(unix.AT_FDCWD, descriptorPath(file), l.stage.fd, name, unix.AT_SYMLINK_FOLLOW)
	})
}
