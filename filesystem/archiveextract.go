package filesystem

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ExtractOptions configure Extract. A limit of zero means its default, and a negative limit
// means none.
type ExtractOptions struct {
	// Compression is the compression of the archive. Empty means that the first bytes determine it.
	Compression Compression

	MaxEntries int   // entries of the archive, and directories that it makes; default 1,000,000
	MaxBytes   int64 // size of all files together, with holes; default 1 TiB
	// MaxRatio bounds the ratio of the content's size to the archive's size, after 64 MiB
	// of content. A directory counts as 4 KiB. The default is 500. deflate can reach 1032, but only with zeros.
	MaxRatio int
	MaxDepth int // levels of directories; default 255

	// NoSync does not wait for the disk: see WriteOptions.
	NoSync bool
}

func (o ExtractOptions) withDefaults() ExtractOptions {
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<40)
	o.MaxRatio = cmp.Or(o.MaxRatio, 500)
	o.MaxDepth = cmp.Or(o.MaxDepth, maxLevels)
	return o
}

// maxExtractedPaths bounds Extracted.Paths.
const maxExtractedPaths = 1024

// maxFolderPaths bounds the bytes of the paths of directories that are made.
const maxFolderPaths = 64 << 20

// Extracted is the result of Extract.
type Extracted struct {
	Paths     []string // absolute, in the order of the archive; the first 1024
	Truncated bool     // there are more paths
	Entries   int      // files, directories and links
	Bytes     int64    // size of all files together
}

// Extract unpacks a tar archive, which may be compressed with gzip or zstd, into a directory,
// which is made if it does not exist. An empty name is where relative paths begin. The archive
// is read as a stream, and memory does not depend on the size of files.
//
// Extract unpacks everything or nothing. Entries are unpacked into a hidden directory in the
// destination and checked as they arrive. They are moved to their places after the archive was
// read to its end and every entry can take its place. Before that, the destination does not
// change. The moves themselves fail only if another program interferes.
//
// A directory of the archive joins an existing one, which keeps its mode. A file or link
// replaces a file or link. The error is fs.ErrExist for a file in the place of a directory, or
// a directory in the place of a file. Existing symbolic links are followed where the archive
// has a directory, if they lead to a directory in the destination; otherwise the error is
// ErrOutside.
//
// The error is ErrArchive for an archive that is damaged or ends early, and for absolute names,
// names with "..", symbolic links out of the destination, hard links to anything except an
// earlier file of the archive, entries below a symbolic link of the archive, devices and FIFOs.
// It is ErrTooLarge if a limit is exceeded, or if the paths of the directories in the archive
// have more than 64 MiB together.
//
// Mode (without setuid, setgid and sticky bits) and time of modification are kept; owners and
// other attributes are not. Holes in sparse files stay holes.
//
// The end of ctx takes effect when a Read of r returns.
func (f *FS) Extract(ctx context.Context, name string, r io.Reader, options ExtractOptions) (Extracted, error) {
	options = options.withDefaults()
	x := &extraction{fs: f, options: options, alive: f.alive(ctx), known: map[string]int{}}
	err := f.call("extract", name, f.locate, func(p place) (err error) {
		x.place = p
		if x.stream, err = openTar(r, options, x.alive); err != nil {
			return err
		}
		defer x.stream.close()
		return x.run()
	})
	if err != nil {
		return Extracted{}, err
	}
	return x.done, nil
}

// run prepares the destination, unpacks, and cleans up.
func (x *extraction) run() (err error) {
	var made []string
	x.dest, made, err = openOrMake(x.place)
	defer func() {
		if err == nil {
			return
		}
		for i := len(made) - 1; i >= 0; i-- {
			_ = x.place.tree.Remove(made[i]) // fails if it is not empty
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

// openOrMake opens a directory, and makes it if it does not exist. It returns the names of the
// tree that it made, outermost first.
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
			return folder{}, made, withPath(path.Join(strings.TrimSuffix(p.path, p.name), name), err)
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
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // entryParts checks names
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

func (x *extraction) entry(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader, 'V': // a header for all entries, and the name of a tape
		return nil
	}
	parts, err := x.entryParts(h.Name)
	if err != nil {
		return err
	}
	kind := h.Typeflag
	if kind == tar.TypeReg && strings.HasSuffix(h.Name, "/") && h.Size == 0 {
		kind = tar.TypeDir // as the oldest tar programs write directories
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
		return withPath(x.inPlace(h.Name), err)
	}
	x.done.Entries++
	if len(x.done.Paths) < maxExtractedPaths {
		x.done.Paths = append(x.done.Paths, path.Join(x.place.path, strings.Join(parts, "/")))
	} else {
		x.done.Truncated = true
	}
	return nil
}

// directory makes a directory. Its mode and time are set at the end.
func (x *extraction) directory(h *tar.Header, parts []string) error {
	l, err := x.enterLevel(parts)
	if err != nil || l.merges {
		return err
	}
	if i, ok := x.known[l.path]; ok {
		x.folders[i].mode, x.folders[i].modified = permissions(h), h.ModTime
		return nil
	}
	x.known[l.path] = len(x.folders)
	x.folders = append(x.folders, stagedFolder{path: l.path, mode: permissions(h), modified: h.ModTime})
	return nil
}

// permissions returns the mode of an entry, without setuid, setgid and sticky bits.
func permissions(h *tar.Header) uint32 { return uint32(h.Mode) & 0o777 }

func (x *extraction) file(h *tar.Header, parts []string, content io.Reader) error {
	if x.options.MaxBytes >= 0 && h.Size > x.options.MaxBytes-x.done.Bytes {
		return tooLarge("archive expands to more than " + strconv.FormatInt(x.options.MaxBytes, 10) + " bytes (MaxBytes)")
	}
	l, name, err := x.parentLevel(parts)
	if err != nil {
		return err
	}
	var file *os.File
	err = x.create(l, name, node.isRegular, func() (err error) {
		file, err = l.stage.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()
	if err := x.fill(file, h, content); err != nil {
		return err
	}
	if err := unix.Fchmod(int(file.Fd()), permissions(h)); err != nil {
		return err
	}
	return setTime(l.stage.fd, name, h.ModTime)
}

// setTime sets the time of modification of an entry, without following a link.
func setTime(dir int, name string, modified time.Time) error {
	at, err := unix.TimeToTimespec(modified)
	if err != nil {
		return err // on arm, a time after 2038
	}
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}, unix.AT_SYMLINK_NOFOLLOW)
}

func (x *extraction) symlink(h *tar.Header, parts []string) error {
	if err := checkTarget(h.Name, h.Linkname); err != nil {
		return err
	}
	l, name, err := x.parentLevel(parts)
	if err != nil {
		return err
	}
	x.hasLinks = true
	err = x.create(l, name, node.isLink, func() error { return unix.Symlinkat(h.Linkname, l.stage.fd, name) })
	if err != nil {
		return err
	}
	return setTime(l.stage.fd, name, h.ModTime)
}

// hardLink makes another name of an earlier file of the archive.
func (x *extraction) hardLink(h *tar.Header, parts []string) error {
	target, err := x.entryParts(h.Linkname)
	if err != nil || len(target) == 0 {
		return refused(h.Name, "archive has a hard link to an invalid path", "it is "+printable(h.Linkname))
	}
	file, err := x.openStaged(target)
	if err != nil {
		return refused(h.Name, "archive has a hard link to something other than a file that came before it",
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
	return x.create(l, name, node.isRegular, func() error {
		return unix.Linkat(unix.AT_FDCWD, descriptorPath(file), l.stage.fd, name, unix.AT_SYMLINK_FOLLOW)
	})
}
