package supervise

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// registry knows the groups and the living children of this program.
type registry struct {
	forker forker

	guard atomic.Pointer[guard] // nil: there is no guardian

	// spawn is held for reading from before a fork until the child is in
	// unreaped, and for writing while an orphan is waited for.
	spawn sync.RWMutex

	mu       sync.Mutex
	next     uint64
	groups   []*Group
	unreaped map[int]*Child // by process id, which stays theirs until they are waited for
	logs     map[string]*logFile
	devNull  *os.File
}

// guard is common to all children of a program with a guardian.
type guard struct {
	token    string // in their environment, before the group's token
	mark     mark
	guardian *Guardian
}

// program is the only registry. A program has one set of children, whichever object
// started them, and Reap must not wait for any of them.
var program registry

// null returns /dev/null, the input of most children. It is opened once.
func (r *registry) null() (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.devNull == nil {
		r.devNull, err = os.Open(os.DevNull)
	}
	return r.devNull, err
}

func (r *registry) add(g *Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = append(r.groups, g)
}

func (r *registry) remove(g *Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = slices.DeleteFunc(r.groups, func(o *Group) bool { return o == g })
}

func (r *registry) list() []*Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.groups)
}

// number returns the next child's number.
func (r *registry) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next
}

// born registers a child that was just forked.
func (r *registry) addChild(c *Child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unreaped == nil {
		r.unreaped = make(map[int]*Child)
	}
	r.unreaped[c.pid] = c
}

// reaped forgets a child. A new child may already have its process id.
func (r *registry) removeChild(c *Child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unreaped[c.pid] == c {
		delete(r.unreaped, c.pid)
	}
}

func (r *registry) isChild(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unreaped[pid] != nil
}

// openLog returns the log file of a path, or nil for no path. Children share it, so
// that all of them write to the new file after a rename.
func (r *registry) openLog(path string) *logFile {
	if path == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logs == nil {
		r.logs = make(map[string]*logFile)
	}
	l := r.logs[path]
	if l == nil {
		l = &logFile{path: path}
		r.logs[path] = l
	}
	l.users++
	return l
}

// closeLog releases a log file of openLog.
func (r *registry) closeLog(l *logFile) {
	if l == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(r.logs, l.path)
		l.close()
	}
}

// Find returns the child with an identifier, or nil if no group lists it.
func Find(id string) *Child {
	for _, g := range program.list() {
		if c := g.find(id); c != nil {
			return c
		}
	}
	return nil
}

// Others returns the children that all groups except one list, in no particular order.
func Others(but *Group) []*Child {
	var all []*Child
	for _, g := range program.list() {
		if g == but {
			continue
		}
		g.mu.Lock()
		all = append(all, g.kids...)
		g.mu.Unlock()
	}
	return all
}
