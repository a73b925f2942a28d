package desktop

import (
	"slices"
	"syscall"
	"time"
)

// Bounds of the list that Actors returns.
const (
	presentTime = 5 * time.Minute
	mostPresent = 32
)

// Presence is an API caller or an agent that uses a desktop.
type Presence struct {
	Actor Actor
	Seen  time.Time // when it last sent input, whether that was allowed or not
}

// Actors returns the API callers and agents that sent input in the last five
// minutes, at most 32, in the order of their first input. It does not return
// viewers, which the live view knows.
func (d *Desktop) Actors() []Presence {
	c := &d.control
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropAbsent()
	return slices.Clone(c.present)
}

// seen records the time of an actor's input. The caller has mu.
func (c *control) seen(a Actor) {
	if a.Kind == ActorViewer {
		return
	}
	if i := slices.IndexFunc(c.present, func(p Presence) bool { return p.Actor.Same(a) }); i >= 0 {
		c.present[i] = Presence{a, time.Now()}
		return
	}
	c.dropAbsent()
	if len(c.present) == mostPresent {
		oldest := slices.MinFunc(c.present, func(p, q Presence) int { return p.Seen.Compare(q.Seen) })
		c.present = slices.DeleteFunc(c.present, func(p Presence) bool { return p == oldest })
	}
	c.present = append(c.present, Presence{a, time.Now()})
}

// dropAbsent forgets the actors that sent no input for presentTime. The caller has mu.
func (c *control) dropAbsent() {
	c.present = slices.DeleteFunc(c.present, func(p Presence) bool { return time.Since(p.Seen) > presentTime })
}

// Programs returns the number of programs on a desktop: launched programs that run, and
// owners of windows, such as programs that a terminal started. The windows come from
// [Desktop.Windows].
func (s Status) Programs(windows []Window) int {
	groups := map[int]bool{} // of processes: a launched script may not own its window
	for _, p := range s.Processes {
		if p.Launched && p.Running {
			groups[processGroup(p.PID)] = true
		}
	}
	for _, w := range windows {
		if w.PID > 0 {
			groups[processGroup(w.PID)] = true
		}
	}
	return len(groups)
}

// processGroup returns the process group of a process, or pid if the process has ended
// or runs on another machine.
func processGroup(pid int) int {
	if group, err := syscall.Getpgid(pid); err == nil {
		return group
	}
	return pid
}
