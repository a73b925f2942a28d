package filesystem

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// append adds to a file that exists. The content is received whole before, so
// that one which breaks off changes nothing.
func (w *writer) append(ctx context.Context, r io.Reader) (int64, error) {
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
		return w.appendToCopy(ctx, r)
	}
	content, discard, err := w.collect(ctx, r)
	if err != nil {
		return 0, err
	}
	defer discard()
	defer w.fs.lockAppend(old.id())()
	if old, err = nodeOfFile(file); err != nil {
		return 0, err
	}
	if err := w.check(old, true); err != nil {
		return 0, err
	}
	n, err := w.fs.receive(ctx, file, content, false)
	if err == nil && !w.options.NoSync {
		err = file.Sync()
	}
	if err != nil {
		takeBack(file, old.size, n)
		return 0, err
	}
	if w.options.Mode != 0 {
		_ = file.Chmod(w.options.Mode.Perm())
	}
	return n, nil
}

// takeBack shortens a file to its old size, unless others added to it as well.
func takeBack(file *os.File, size, added int64) {
	if n, err := nodeOfFile(file); err == nil && n.size == size+added {
		_ = file.Truncate(size)
	}
}

// appendToCopy appends by replacing the file, which may have another name
// outside of the root: that one keeps the old content.
func (w *writer) appendToCopy(ctx context.Context, r io.Reader) (int64, error) {
	old, err := w.target.dir.open(w.target.name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer old.Close()
	counted := &counter{r: r}
	_, err = w.replace(ctx, io.MultiReader(old, counted))
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

// collect receives content: into memory when it is small, else into a temporary
// file, beside the target if possible. discard must be called after use.
func (w *writer) collect(ctx context.Context, r io.Reader) (content io.Reader, discard func(), err error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	total := 0
	for total < len(buffer) && err == nil {
		if err = w.fs.alive(ctx); err != nil {
			buffers.Put(buffer)
			return nil, nil, err
		}
		var n int
		n, err = r.Read(buffer[total:])
		total += n
	}
	switch err {
	case io.EOF:
		return bytes.NewReader(buffer[:total]), func() { buffers.Put(buffer) }, nil
	case nil:
		defer buffers.Put(buffer)
		return w.spool(ctx, io.MultiReader(bytes.NewReader(buffer[:]), r))
	default:
		buffers.Put(buffer)
		return nil, nil, endedAfter(int64(total), err)
	}
}

func (w *writer) spool(ctx context.Context, r io.Reader) (io.Reader, func(), error) {
	temp, err := w.fs.newTemporary(w.target.dir, 0o600)
	if err != nil {
		if temp, err = w.fs.newSpool(); err != nil {
			return nil, nil, err
		}
	}
	_, err = w.fs.receive(ctx, temp.file, r, false)
	if err == nil {
		_, err = temp.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		temp.discard()
		return nil, nil, err
	}
	return temp.file, temp.discard, nil
}

// appendLock keeps those apart who append to one file.
type appendLock struct {
	sync.Mutex
	users int // under shared.mu
}

// lockAppend waits for its turn and returns what ends it.
func (f *FS) lockAppend(id fileID) (unlock func()) {
	f.mu.Lock()
	l := f.appends[id]
	if l == nil {
		l = new(appendLock)
		f.appends[id] = l
	}
	l.users++
	f.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(f.appends, id)
		}
	}
}
