package filesystem

import (
	"bytes"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// append appends to an existing file, after receiving the content completely.
func (w *writer) append(r io.Reader) (int64, error) {
	t := w.target
	file, err := t.dir.open(t.name, unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	old, err := nodeOfFile(file)
	if err != nil {
		return 0, err
	}
	if err := w.check(old, true); err != nil {
		return 0, err
	}
	if t.confined && old.links > 1 {
		return w.appendToCopy(r)
	}
	content, discard, err := w.collect(r)
	if err != nil {
		return 0, err
	}
	defer discard()
	old, unlock, err := w.lock(file)
	if err != nil {
		return 0, err
	}
	defer unlock()
	n, err := receive(file, content, false, w.alive)
	if err == nil && !w.options.NoSync {
		err = syncFile(file)
	}
	if err != nil {
		undoAppend(file, old.size, n)
		return 0, err
	}
	if w.options.Mode != 0 {
		_ = file.Chmod(w.options.Mode.Perm())
	}
	return n, nil
}

// undoAppend truncates a file to its old size, unless another program has appended to it, too.
func undoAppend(file *os.File, size, added int64) {
	if n, err := nodeOfFile(file); err == nil && n.size == size+added {
		_ = file.Truncate(size)
	}
}

// appendToCopy appends by replacing the file. Another name of it, outside of the root, keeps
// the old content.
func (w *writer) appendToCopy(r io.Reader) (int64, error) {
	old, err := w.target.dir.open(w.target.name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer old.Close()
	counted := &counter{r: r}
	_, err = w.replace(io.MultiReader(old, counted))
	if err != nil {
		return 0, err
	}
	return counted.n, nil
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// collect receives content into memory if it is small, else into a temporary file, beside the
// target if possible. discard must be called after use.
func (w *writer) collect(r io.Reader) (content io.Reader, discard func(), err error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	total := 0
	for total < len(buffer) && err == nil {
		if err = w.alive(); err != nil {
			buffers.Put(buffer)
			return nil, nil, err
		}
		var n int
		n, err = r.Read(buffer[total:])
		total += n
	}
	switch {
	case err == io.EOF: //nolint:errorlint // a wrapped io.EOF is an error, as in io.Copy
		return bytes.NewReader(buffer[:total]), func() { buffers.Put(buffer) }, nil
	case err == nil:
		defer buffers.Put(buffer)
		return w.spool(io.MultiReader(bytes.NewReader(buffer[:]), r))
	default:
		buffers.Put(buffer)
		return nil, nil, endedAfter(int64(total), err)
	}
}

func (w *writer) spool(r io.Reader) (io.Reader, func(), error) {
	temp, err := w.fs.newTemporary(w.target.dir, 0o600)
	if err != nil {
		if temp, err = w.fs.newSpool(); err != nil {
			return nil, nil, err
		}
	}
	_, err = receive(temp.file, r, false, w.alive)
	if err == nil {
		_, err = temp.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		temp.discard()
		return nil, nil, err
	}
	return temp.file, temp.discard, nil
}

// lock locks the content of an open file, and checks the file again.
func (w *writer) lock(file *os.File) (old node, unlock func(), err error) {
	if old, err = nodeOfFile(file); err != nil {
		return old, nil, err
	}
	unlock = w.fs.lockContent(old.id())
	if old, err = nodeOfFile(file); err == nil {
		err = w.check(old, true)
	}
	if err != nil {
		unlock()
	}
	return old, unlock, err
}

// contentLock excludes concurrent changes of the content of one file.
type contentLock struct {
	sync.Mutex
	users int // under shared.mu
}

func (f *FS) lockContent(id fileID) (unlock func()) {
	f.mu.Lock()
	l := f.contents[id]
	if l == nil {
		l = new(contentLock)
		f.contents[id] = l
	}
	l.users++
	f.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(f.contents, id)
		}
	}
}
