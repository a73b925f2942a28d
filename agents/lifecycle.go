package agents

import (
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Reasons for the end of a process, in eventlog.Process.Reason.
const (
	endedItself  = "exit"                 // the agent exited; a request that names it starts the next process
	endedServer  = "server"               // the host ended it; the next request starts the next process
	endedDeleted = eventlog.ReasonDeleted // a client deleted the server
)

// lifecycle records whether a process takes messages, why it ends, and since when it is idle.
// Any goroutine may use it. A reason stays, except that a deletion replaces every other one.
type lifecycle struct {
	agent  string
	closed func() bool // whether the host is closed

	mu       sync.Mutex // guards the fields below
	reason   string     // why the process ends; empty: it does not
	logError error      // why nothing can be committed at the moment
	lost     error      // another host has the server: the error for clients
	exit     *ExitedError
	active   time.Time // when the last message passed
	open     int       // requests and questions without an answer
	keepers  int       // calls of keepRunning that have not ended
}

// admit reports whether the process takes messages. If so, it is not retired for now. err is
// the error for the caller while the log returns errors.
func (l *lifecycle) admit() (ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == "" {
		l.active = time.Now()
	}
	return l.reason == "", l.logError
}

// beginEnd records why the process ends.
func (l *lifecycle) beginEnd(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == "" || reason == endedDeleted {
		l.reason = reason
	}
}

// beginExit is like beginEnd for an agent that has exited, and returns the reason.
func (l *lifecycle) beginExit() string {
	if l.closed() {
		l.beginEnd(endedServer)
	}
	l.beginEnd(endedItself)
	return l.endReason()
}

// endReason returns why the process ends, or "".
func (l *lifecycle) endReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// lose records that another host has the server.
func (l *lifecycle) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == "" || l.reason == endedItself {
		l.reason = endedServer
	}
	l.lost = why
}

func (l *lifecycle) lostError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *lifecycle) setExit(e *ExitedError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exit = e
}

// exitError returns the error for a message that comes too late.
func (l *lifecycle) exitError() error {
	closed := l.closed()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case l.reason == endedDeleted:
		return ErrServerNotFound
	case l.reason == endedServer && closed:
		return ErrClosed
	case l.reason == endedServer:
		return errResting
	case l.exit != nil:
		return l.exit
	}
	return &ExitedError{Agent: l.agent}
}

// setLogError sets the error for new messages while the log returns errors. Nil: the log accepts
// messages.
func (l *lifecycle) setLogError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logError = err
}

// setOpen sets the number of requests and questions without an answer.
func (l *lifecycle) setOpen(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < l.open { // an answer; other messages of an agent are no work
		l.active = time.Now()
	}
	l.open = n
}

// retire reports whether the process was idle for longer than a time. If so, it takes no more
// messages.
func (l *lifecycle) retire(idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != "" || l.open+l.keepers > 0 || time.Since(l.active) <= idle {
		return false
	}
	l.reason = endedServer
	return true
}

// keepRunning keeps the process from being retired until the returned function is called.
func (l *lifecycle) keepRunning() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepers++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.keepers--
		l.active = time.Now()
	}
}
