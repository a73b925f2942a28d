package filesystem

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// moveIn moves the unpacked files to their places, after checking that all can be moved. After
// the first move it continues even if the context ends.
func (x *extraction) moveIn() error {
	if x.hasLinks {
		if err := x.checkLinks(x.stage.folder, nil); err != nil {
			return err
		}
	}
	if err := x.setFolders(); err != nil {
		return err
	}
	if err := x.sync(); err != nil {
		return err
	}
	if err := x.moveAll(pair{stage: x.stage.folder, dest: x.dest}); err != nil {
		return err
	}
	return x.sync()
}

// moveAll moves all entries or none, unless another program interferes.
func (x *extraction) moveAll(top pair) error {
	x.fs.commit.Lock()
	defer x.fs.commit.Unlock()
	m := &merger{x: x}
	if err := m.dryRun(top); err != nil {
		return err
	}
	if err := x.alive(); err != nil {
		return err
	}
	if err := m.move(top); err != nil {
		return err
	}
	x.restrictFolders()
	return nil
}

// sync syncs the whole file system, which is faster than syncing thousands of files.
func (x *extraction) sync() error {
	if x.options.NoSync {
		return nil
	}
	err := unix.Syncfs(x.stage.fd)
	if unsupported(err) {
		unix.Sync()
		return nil
	}
	return err
}

// eachName calls f with the names in a folder, until an error.
func eachName(d folder, f func(name string) error) error {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return withPath(d.path, err)
	}
	for {
		names, err := d.file.Readdirnames(1024)
		for _, name := range names {
			if err := f(name); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return withPath(d.path, err)
		}
	}
}

// checkLinks returns an error for a symbolic link of the archive that leads out of the
// destination through other links, of the archive or of the destination. It runs after all
// entries are unpacked, because later entries change where a link leads.
func (x *extraction) checkLinks(dir folder, parts []string) error {
	return eachName(dir, func(name string) error {
		if err := x.alive(); err != nil {
			return err
		}
		n, err := dir.stat(name)
		switch {
		case err != nil:
			return err
		case n.isDir():
			sub, err := dir.folder(name, folderRead)
			if err != nil {
				return err
			}
			defer sub.close()
			return x.checkLinks(sub, append(slices.Clone(parts), name))
		case !n.isLink():
			return nil
		}
		target, err := dir.readlink(name)
		if err != nil {
			return err
		}
		_, err = x.follow(parts, target, x.stage.folder, x.dest)
		if err != nil && !errors.Is(err, errCircle) {
			return leavingLink(path.Join(path.Join(parts...), name))
		}
		return nil
	})
}

// setFolders sets the mode and time of directories, after all entries are in them. They stay
// writable until they are moved.
func (x *extraction) setFolders() error {
	for i, d := range x.folders {
		n, err := x.stage.stat(d.path)
		if err != nil {
			return withPath(x.inPlace(d.path), err)
		}
		x.folders[i].id = n.id()
		if err := unix.Fchmodat(x.stage.fd, d.path, d.mode|0o700, 0); err != nil {
			return withPath(x.inPlace(d.path), err)
		}
		if err := setTime(x.stage.fd, d.path, d.modified); err != nil {
			return withPath(x.inPlace(d.path), err)
		}
	}
	return nil
}

// restrictFolders sets the final mode of directories, the deepest first. Programs that may change
// the destination can have put other directories in their places, which keep their mode.
func (x *extraction) restrictFolders() {
	restricted := slices.DeleteFunc(x.folders, func(d stagedFolder) bool { return d.mode&0o700 == 0o700 })
	slices.SortStableFunc(restricted, func(a, b stagedFolder) int { return len(b.path) - len(a.path) })
	if len(restricted) == 0 {
		return
	}
	root, err := os.OpenRoot(descriptorPath(x.dest.file))
	if err != nil {
		x.fs.logger.Debug("modes of extracted directories", "path", x.place.path, "err", err)
		return
	}
	defer root.Close()
	for _, d := range restricted {
		if err := d.restrict(root); err != nil {
			x.fs.logger.Debug("mode of an extracted directory", "path", x.inPlace(d.path), "err", err)
		}
	}
}

// restrict sets the final mode of a directory below the destination.
func (d stagedFolder) restrict(dest *os.Root) error {
	file, err := dest.OpenFile(d.path, folderRead, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := nodeOfFile(file)
	if err == nil && n.id() != d.id {
		err = ErrChanged
	}
	if err != nil {
		return err
	}
	return file.Chmod(fs.FileMode(d.mode))
}

// pair is an unpacked directory and the existing directory that it joins.
type pair struct{ stage, dest folder }

func (p pair) down(name string) (pair, error) {
	stage, err := p.stage.folder(name, folderRead)
	if err != nil {
		return pair{}, withPath(p.dest.child(name), err)
	}
	dest, err := p.dest.folder(name, folderHold)
	if err != nil {
		stage.close()
		return pair{}, withPath(p.dest.child(name), err)
	}
	return pair{stage, dest}, nil
}

func (p pair) close() {
	p.stage.close()
	p.dest.close()
}

// merger moves unpacked files into the destination.
type merger struct {
	x     *extraction
	moved int
}

// dryRun checks whether every move can succeed.
func (m *merger) dryRun(p pair) error {
	stageMount, err := mountOf(p.stage.fd, "")
	if err != nil {
		return err
	}
	destMount, err := mountOf(p.dest.fd, "")
	if err != nil {
		return withPath(p.dest.path, err)
	}
	if stageMount != destMount {
		return conflict(p.dest.path, "archive has a directory where another file system begins", "extract into that one separately")
	}
	if err := unix.Faccessat(p.dest.fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil && !unsupported(err) {
		return withPath(p.dest.path, err)
	}
	self, err := p.dest.self()
	if err != nil {
		return withPath(p.dest.path, err)
	}
	return eachName(p.stage, func(name string) error {
		if err := m.x.alive(); err != nil {
			return err
		}
		return m.checkReplace(p, name, self, destMount)
	})
}

// checkReplace checks whether one move can succeed, and the moves below it.
func (m *merger) checkReplace(p pair, name string, dir node, mounted mount) error {
	target := p.dest.child(name)
	old, err := p.dest.stat(name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return withPath(target, err)
	}
	now, err := p.stage.stat(name)
	switch {
	case err != nil:
		return withPath(target, err)
	case now.isDir() && old.isDir():
		sub, err := p.down(name)
		if err != nil {
			return err
		}
		defer sub.close()
		return m.dryRun(sub)
	case now.isDir():
		return conflict(target, "archive has a directory where a file is", "")
	case old.isDir():
		return conflict(target, "archive has a file where a directory is", "")
	}
	oldMount, err := mountOf(p.dest.fd, name)
	if err == nil && oldMount != mounted {
		return &Error{Path: target, Reason: "in use by the system", Remedy: "it is a mount point", Kind: ErrBusy}
	}
	me := uint32(unix.Geteuid())
	if dir.mode&fs.ModeSticky != 0 && me != 0 && me != dir.uid && me != old.uid {
		return &Error{Path: target, Reason: "file of another user in a sticky directory", Kind: fs.ErrPermission}
	}
	return nil
}

// mount identifies a mount. Files can be renamed only within one.
type mount struct {
	id     uint64
	device uint64
}

// mountOf returns the mount of an entry of a directory, or of the directory if the name is
// empty. Kernels before 5.8 return the device only.
func mountOf(dir int, name string) (mount, error) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st); err != nil {
		return mount{}, err
	}
	m := mount{device: unix.Mkdev(st.Dev_major, st.Dev_minor)}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		m.id = st.Mnt_id
	}
	return m, nil
}

// move moves all entries. A directory that the destination does not have moves with its
// content.
func (m *merger) move(p pair) error {
	for {
		before := m.moved
		err := eachName(p.stage, func(name string) error { return m.moveOne(p, name) })
		// A pass may miss names because it moved others.
		if err != nil || m.moved == before {
			return err
		}
	}
}

func (m *merger) moveOne(p pair, name string) error {
	target := p.dest.child(name)
	now, err := p.stage.stat(name)
	if err != nil {
		return m.interfered(target, err)
	}
	joins := false
	if now.isDir() {
		old, err := p.dest.stat(name)
		joins = err == nil && old.isDir()
	}
	if !joins {
		err := p.stage.rename(name, p.dest, name, 0)
		switch {
		case err == nil:
			m.moved++
			return nil
		case !now.isDir() || err != unix.ENOTEMPTY && err != unix.EEXIST:
			return m.interfered(target, err)
		}
	}
	sub, err := p.down(name)
	if err != nil {
		return m.interfered(target, err)
	}
	err = m.move(sub)
	sub.close()
	if err == nil && p.stage.rmdir(name) == nil {
		m.moved++
	}
	return err
}

// interfered returns the error for a move that failed after dryRun.
func (m *merger) interfered(target string, err error) error {
	if m.moved == 0 {
		return withPath(target, err)
	}
	problem, _, kind := m.x.fs.explain(err)
	return &Error{
		Path: target, Reason: "archive is in its place only in part, as something else changed the directory meanwhile: " + problem,
		Remedy: "extract it again", Kind: kind, Err: err,
	}
}
