package supervise

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// logSize bounds a log file. The previous file is kept with ".1" appended to its name.
const logSize = 4 << 20

// logRetry is the time between an error of a log file and the next try.
const logRetry = time.Second

// logFile is a bounded file. Errors are ignored: on a full disk a child's output is
// lost, and the child continues.
type logFile struct {
	path  string
	users int // guarded by the registry's lock

	mu      sync.Mutex
	f       *os.File
	size    int64
	regular bool
	retry   time.Time
}

// write appends to the file, and makes it if necessary.
func (l *logFile) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.retry) {
		return
	}
	if l.f != nil && l.regular && l.size > 0 && l.size+int64(len(b)) > logSize {
		_ = l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1")
	}
	if err := l.open(); err != nil {
		l.retry = now.Add(logRetry)
		return
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	if err != nil {
		l.retry = now.Add(logRetry)
	}
}

// open opens the file unless it is open. O_NONBLOCK keeps it from blocking on a named
// pipe.
func (l *logFile) open() error {
	if l.f != nil {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size, l.regular = f, fi.Size(), fi.Mode().IsRegular()
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}
