package filesystem

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// extraction is one Extract.
type extraction struct {
	fs      *FS
	place   place
	real    string // path of the destination without symbolic links; empty until it is needed
	options ExtractOptions
	stream  *tarStream
	alive   aliveFunc
	dest    folder
	stage   stage
	buffer  []byte

	levels   []level        // open directories of the latest entry
	folders  []stagedFolder // directories whose mode and time are set at the end
	known    map[string]int // path to index in folders
	made     int            // directories
	paths    int            // bytes of the paths of these directories
	hasLinks bool           // the archive has a symbolic link
	done     Extracted
}

// level is an open directory of the archive. If it joins an existing directory, level has both.
type level struct {
	name   string // in the archive
	path   string // from the destination, without symbolic links
	stage  folder
	merges bool
	dest   folder // if merges is set
}

func (l level) close() {
	l.stage.close()
	if l.merges {
		l.dest.close()
	}
}

// stagedFolder has the attributes of a directory in the archive.
type stagedFolder struct {
	path     string
	mode     uint32
	modified time.Time
	id       fileID // set by setFolders
}

// stage is a hidden directory in the destination for one extraction.
type stage struct {
	folder

	dest folder
	name string
}

// openStage makes a staging directory. It is locked while it is in use: see sweep.
func openStage(dest folder) (s stage, err error) {
	s = stage{dest: dest, name: hiddenName(tempSuffix)}
	if err := dest.mkdir(s.name, 0o700); err != nil {
		return stage{}, err
	}
	if s.folder, err = dest.ownFolder(s.name); err != nil {
		_ = dest.rmdir(s.name)
		return stage{}, err
	}
	_ = unix.Flock(s.fd, unix.LOCK_EX|unix.LOCK_NB)
	return s, nil
}

func (s stage) remove() {
	_ = removeEntry(s.dest, s.name, uninterrupted) // sweep tries again
	s.close()
}

// leaveLevels closes all levels except the first ones.
func (x *extraction) leaveLevels(keep int) {
	for _, l := range x.levels[keep:] {
		l.close()
	}
	clear(x.levels[keep:])
	x.levels = x.levels[:keep]
}

// parentLevel opens the directory of an entry, and returns the name in it.
func (x *extraction) parentLevel(parts []string) (level, string, error) {
	last := len(parts) - 1
	l, err := x.enterLevel(parts[:last])
	return l, parts[last], err
}

// enterLevel opens a directory of the archive, and makes it if it does not exist. The
// directory stays open until another one is entered, because most archives are ordered by
// directory.
func (x *extraction) enterLevel(parts []string) (level, error) {
	same := 0
	for same < len(parts) && same < len(x.levels) && x.levels[same].name == parts[same] {
		same++
	}
	x.leaveLevels(same)
	for _, name := range parts[same:] {
		next, err := x.down(x.level(), name)
		if err != nil {
			return level{}, err
		}
		next.name = name
		x.levels = append(x.levels, next)
	}
	return x.level(), nil
}

func (x *extraction) level() level {
	if n := len(x.levels); n > 0 {
		return x.levels[n-1]
	}
	return x.top()
}

func (x *extraction) top() level {
	return level{stage: x.stage.folder, dest: x.dest, merges: true}
}

// down opens a directory below another one. It follows a symbolic link of the destination.
func (x *extraction) down(l level, name string) (level, error) {
	next := level{path: path.Join(l.path, name)}
	if l.merges {
		n, err := l.dest.stat(name)
		switch {
		case err == unix.ENOENT:
		case err != nil:
			return level{}, withPath(x.inPlace(next.path), err)
		case n.isLink():
			return x.downLink(next.path)
		case !n.isDir():
			return level{}, conflict(x.inPlace(next.path), "archive has a directory where a file is", "")
		default:
			next.merges = true
		}
	}
	err := l.stage.mkdir(name, 0o777)
	if err == nil {
		err = x.countFolder(next.path)
	}
	if err != nil && err != unix.EEXIST {
		return level{}, err
	}
	if next.stage, err = l.stage.folder(name, folderHold); err != nil {
		return level{}, x.stagedInstead(l, name, err)
	}
	if next.merges {
		if next.dest, err = l.dest.folder(name, folderHold); err != nil {
			next.stage.close()
			return level{}, withPath(x.inPlace(next.path), err)
		}
	}
	return next, nil
}

// countFolder counts a directory that was made. An entry of the archive can imply many.
func (x *extraction) countFolder(path string) error {
	x.made++
	x.paths += len(path)
	switch {
	case x.paths > maxFolderPaths:
		return tooLarge("archive has more than 64 MiB of paths of directories")
	case x.options.MaxEntries >= 0 && x.made > x.options.MaxEntries:
		return tooLarge("archive has more than " + strconv.Itoa(x.options.MaxEntries) + " directories (MaxEntries)")
	}
	return x.checkRatio()
}

// folderSize is the size of a directory in most file systems.
const folderSize = 4096

// checkRatio returns an error if the archive expands too much.
func (x *extraction) checkRatio() error {
	return x.stream.checkRatio(x.done.Bytes + folderSize*int64(x.made))
}

// stagedInstead returns the error for an entry of the archive in the place of a directory.
func (x *extraction) stagedInstead(l level, name string, err error) error {
	n, failed := l.stage.stat(name)
	switch {
	case failed != nil || n.isDir():
		return err
	case n.isLink():
		return refused(path.Join(l.path, name), "archive has a symbolic link and entries below it", "")
	}
	return refused(path.Join(l.path, name), "archive has a file and a directory of the same name", "")
}

// downLink opens the directory to which a symbolic link of the destination leads. It must be
// in the destination.
func (x *extraction) downLink(link string) (level, error) {
	s, err := x.follow(nil, link, x.dest)
	switch {
	case errors.Is(err, errLeaves):
		return level{}, newError(ErrOutside, x.inPlace(link), "symbolic link leads out of the directory to extract into", "extract into the directory that it leads to, or remove it")
	case err != nil || !s.node.isDir():
		return level{}, conflict(x.inPlace(link), "archive has a directory where a symbolic link is", "it leads to no directory")
	}
	l := x.top()
	for i, name := range s.parts {
		next, err := x.down(l, name)
		if i > 0 {
			l.close()
		}
		if err != nil {
			return level{}, err
		}
		l = next
	}
	if len(s.parts) == 0 {
		return level{}, conflict(x.inPlace(link), "archive has a directory where a symbolic link is",
			"it leads to the directory to extract into")
	}
	return l, nil
}

// inPlace returns the absolute path of an entry in the destination.
func (x *extraction) inPlace(name string) string { return path.Join(x.place.path, name) }

// create makes an entry with a function. As with tar, it replaces an earlier entry of the same
// name and kind.
func (x *extraction) create(l level, name string, sameKind func(node) bool, makeIt func() error) error {
	if l.merges {
		if n, err := l.dest.stat(name); err == nil && n.isDir() {
			return conflict(x.inPlace(path.Join(l.path, name)), "archive has a file where a directory is", "")
		}
	}
	err := makeIt()
	if err != unix.EEXIST {
		return err
	}
	n, err := l.stage.stat(name)
	if err != nil {
		return err
	}
	if !sameKind(n) {
		return refused(path.Join(l.path, name), "archive has two entries of the same name and of different kinds", "")
	}
	if err := l.stage.unlink(name); err != nil {
		return err
	}
	return makeIt()
}

// openStaged opens a file of the archive with O_PATH.
func (x *extraction) openStaged(parts []string) (*os.File, error) {
	l, name, err := x.parentLevel(parts)
	if err != nil {
		return nil, err
	}
	file, err := l.stage.open(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	if n, err := nodeOfFile(file); err != nil || !n.isRegular() {
		file.Close()
		return nil, errors.Join(err, ErrNotFile)
	}
	return file, nil
}

func (x *extraction) fill(file *os.File, h *tar.Header, content io.Reader) error {
	sparse := isSparse(h)
	size := int64(0)
	for {
		n, err := io.ReadFull(content, x.buffer[:min(int64(len(x.buffer)), max(h.Size-size, 1))])
		if failed := write(file, x.buffer[:n], sparse); failed != nil {
			return failed
		}
		size += int64(n)
		x.done.Bytes += int64(n)
		if failed := x.checkRatio(); failed != nil {
			return failed
		}
		switch {
		case err == io.EOF: // exactly at the end, else it is io.ErrUnexpectedEOF
			if sparse {
				return file.Truncate(size) // a hole at the end
			}
			return nil
		case err != nil:
			return x.stream.explain(err, h.Name)
		}
	}
}

// isSparse reports whether a file may have holes, in any format.
func isSparse(h *tar.Header) bool {
	return h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.realsize"] != "" ||
		h.PAXRecords["GNU.sparse.size"] != ""
}

var zeroPage [4096]byte

// write writes at the offset of a file. If sparse is set, it leaves holes for zeros.
func write(file *os.File, b []byte, sparse bool) error {
	if !sparse {
		_, err := file.Write(b)
		return err
	}
	for page := range slices.Chunk(b, len(zeroPage)) {
		var err error
		if bytes.Equal(page, zeroPage[:len(page)]) {
			_, err = file.Seek(int64(len(page)), io.SeekCurrent)
		} else {
			_, err = file.Write(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
