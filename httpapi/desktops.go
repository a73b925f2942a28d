package httpapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// desktopID is what the id of a desktop looks like: it is a folder's name and
// part of a path.
var desktopID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Deadlines of a desktop's life.
const (
	startLimit = 45 * time.Second
	stopLimit  = 15 * time.Second
)

// desktops are all desktops of a server. main is always among them.
type desktops struct {
	cfg      Config
	places   *places
	networks *networks
	running  sync.WaitGroup // starts and stops under way

	mu     sync.Mutex      // guards what follows
	slots  []*slot         // in the order of their creation
	past   []*slot         // of desktops that are no more; see findRecorded
	taken  map[string]bool // ids of those whose files are just being removed
	closed bool
}

func newDesktops(cfg Config, at *places) *desktops {
	ds := &desktops{cfg: cfg, places: at, networks: &networks{cfg: cfg}}
	ds.slots = []*slot{ds.newSlot(mainDesktop)}
	return ds
}

func (ds *desktops) newSlot(id string) *slot {
	sl := &slot{id: id, all: ds}
	sl.recordings.slot = sl
	return sl
}

// find returns the desktop of that id, or nil.
func (ds *desktops) find(id string) *slot {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, sl := range ds.slots {
		if sl.id == id {
			return sl
		}
	}
	return nil
}

func (ds *desktops) list() []*slot {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.Clone(ds.slots)
}

// reserve adds a desktop that has not been started.
func (ds *desktops) reserve(id string, generated bool) (*slot, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	switch {
	case ds.closed:
		return nil, shuttingDown.problem("the server is shutting down")
	case ds.taken[id]:
		return nil, conflict.problem(fmt.Sprintf("conflict: what an earlier server left of a desktop %s is being removed; try again", id)).
			with("details", map[string]any{"message": "id is being cleaned up", "id": id})
	case len(ds.slots) >= ds.cfg.MaxDesktops:
		return nil, conflict.problem(fmt.Sprintf("conflict: there are %d desktops and this server allows %d; DELETE one first, or start the server with a larger --max-desktops", len(ds.slots), ds.cfg.MaxDesktops)).
			with("details", map[string]any{"message": "too many desktops", "limit": ds.cfg.MaxDesktops})
	case slices.ContainsFunc(ds.slots, func(sl *slot) bool { return sl.id == id }):
		return nil, conflict.problem(fmt.Sprintf("conflict: a desktop %s exists already; choose another id, or start that one", id)).
			with("details", map[string]any{"message": "id is taken", "id": id})
	}
	sl := ds.reclaim(id)
	sl.generated = generated
	ds.slots = append(ds.slots, sl)
	return sl, nil
}

// remove forgets a desktop that was stopped.
func (ds *desktops) remove(sl *slot) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.slots = slices.DeleteFunc(ds.slots, func(s *slot) bool { return s == sl })
}

// close ends all desktops at once.
func (ds *desktops) close() error {
	ds.mu.Lock()
	ds.closed = true
	slots := slices.Concat(ds.slots, ds.past)
	ds.mu.Unlock()
	errs := make([]error, len(slots))
	var wg sync.WaitGroup
	for i, sl := range slots {
		wg.Go(func() { errs[i] = sl.stop(context.Background()) })
	}
	wg.Wait()
	ds.running.Wait()
	for _, sl := range slots {
		errs = append(errs, sl.recordings.close(), sl.discard())
	}
	return errors.Join(append(errs, ds.networks.close())...)
}

// phase is where a slot is; a desktop that is there has a state of its own.
type phase int

const (
	idle phase = iota
	starting
	running
	stopping
)

// slot is the place of one desktop, which may be started and stopped there many
// times.
type slot struct {
	id        string
	all       *desktops
	generated bool // nobody chose the id, so nobody will ask for its files
	live      live

	recordings recordings

	mu      sync.Mutex // guards what follows; never held while waiting
	phase   phase
	desk    Desktop          // while running or stopping
	options startOptions     // of the latest start
	failure *desktop.Failure // of the latest start, nil when it succeeded
	change  *transition      // while starting or stopping
	gone    bool             // it was deleted, and must not start again
}

// transition is a start or a stop under way.
type transition struct {
	done   chan struct{}      // closed when it is over
	err    error              // of a start; set before
	cancel context.CancelFunc // of a start
	ended  bool               // a stop was asked for; guarded by slot.mu
}

// desktop returns the running desktop.
func (sl *slot) desktop() (Desktop, error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	switch sl.phase {
	case running:
		return sl.desk, nil
	case starting:
		return nil, runtimeStarting.desktop("Desktop runtime is starting; try again shortly").header("Retry-After", "1")
	case stopping:
		return nil, runtimeStarting.desktop("Desktop runtime is stopping; start it again once its status is inactive").header("Retry-After", "1")
	case idle:
	}
	if sl.failure != nil {
		return nil, runtimeInactive.desktop("Desktop runtime has not been started: the last attempt failed (" + sl.failure.Message + ")")
	}
	return nil, notStarted()
}

// start runs the desktop unless it runs already. Everybody who asks while it
// starts gets the same outcome.
func (sl *slot) start(ctx context.Context, opts startOptions) error {
	for {
		sl.mu.Lock()
		switch sl.phase {
		case running:
			sl.mu.Unlock()
			return nil
		case idle:
			err := error(unknownDesktop(sl.id))
			if !sl.gone {
				err = sl.beginStart(opts)
			}
			if err != nil {
				sl.mu.Unlock()
				return err
			}
		case starting, stopping:
		}
		change, was := sl.change, sl.phase
		sl.mu.Unlock()
		if err := change.wait(ctx, "start desktop"); err != nil {
			return err
		}
		if was == starting {
			return change.err
		}
	}
}

// beginStart is called with mu held.
func (sl *slot) beginStart(opts startOptions) error {
	sl.all.mu.Lock()
	closed := sl.all.closed
	if !closed {
		sl.all.running.Add(1)
	}
	sl.all.mu.Unlock()
	if closed {
		return shuttingDown.problem("the server is shutting down")
	}
	limit := &desktop.DeadlineError{Op: "start desktop", After: startLimit}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startLimit, limit)
	change := &transition{done: make(chan struct{}), cancel: cancel}
	sl.phase, sl.change, sl.failure, sl.options = starting, change, nil, opts
	begun := time.Now()
	go func() {
		defer sl.all.running.Done()
		defer cancel()
		var desk Desktop
		cfg, err := sl.config(opts)
		if err == nil && (opts.StateDir == nil || *opts.StateDir == "") {
			if err := sl.note(); err != nil {
				sl.all.cfg.Logger.Warn("should the server be killed, files of a desktop will stay", "desktop", sl.id, "error", err)
			}
		}
		if err == nil {
			desk, err = sl.all.cfg.Start(ctx, sl.id, cfg)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = limit
		}
		sl.logStart(desk, err, time.Since(begun))
		sl.started(change, desk, err)
	}()
	return nil
}

func (sl *slot) logStart(desk Desktop, err error, took time.Duration) {
	log := sl.all.cfg.Logger.With("desktop", sl.id, "took", took.Round(time.Millisecond))
	switch {
	case err == nil:
		log.Info("desktop started", "display", desk.Status().Display)
	case errors.Is(err, context.Canceled):
		log.Info("desktop stopped while it was starting")
	default:
		log.Warn("desktop did not start", "error", err)
	}
}

// started notes the outcome of a start.
func (sl *slot) started(change *transition, desk Desktop, err error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	defer close(change.done)
	if err == nil {
		sl.phase, sl.desk, sl.change = running, desk, nil
		return
	}
	sl.phase, sl.change = idle, nil
	if change.ended {
		change.err = runtimeInactive.desktop("Desktop was stopped while it was starting; start it again if it is wanted")
		return
	}
	sl.failure = &desktop.Failure{Code: problemOf(err, runtimeFailed).Code, Message: err.Error(), At: time.Now()}
	change.err = problemOf(err, runtimeFailed)
}

// stop ends the desktop, if it runs or is about to, and waits for that. A start
// that was asked for later is left alone.
func (sl *slot) stop(ctx context.Context) error {
	for {
		sl.mu.Lock()
		switch sl.phase {
		case idle:
			sl.failure = nil
			sl.mu.Unlock()
			return nil
		case starting:
			sl.change.ended = true
			sl.change.cancel()
		case running:
			sl.beginStop()
		case stopping:
		}
		change, now := sl.change, sl.phase
		sl.mu.Unlock()
		if err := change.wait(ctx, "stop desktop"); err != nil {
			return err
		}
		if now == stopping || change.err != nil {
			return nil //nolint:nilerr // a start that failed leaves nothing to stop
		}
	}
}

// retire stops the desktop for good.
func (sl *slot) retire(ctx context.Context) error {
	for {
		if err := sl.stop(ctx); err != nil {
			return err
		}
		sl.mu.Lock()
		sl.gone = sl.phase == idle // nobody was quicker to start it again
		gone := sl.gone
		sl.mu.Unlock()
		if gone {
			return nil
		}
	}
}

// beginStop is called with mu held.
func (sl *slot) beginStop() {
	change := &transition{done: make(chan struct{})}
	sl.phase, sl.change = stopping, change
	begun := time.Now()
	sl.all.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		// What is recorded ends while there still is a picture.
		err := errors.Join(sl.live.stop(), sl.recordings.end(ctx), sl.desk.Close())
		sl.mu.Lock()
		defer sl.mu.Unlock()
		sl.phase, sl.desk, sl.change = idle, nil, nil
		if err != nil {
			sl.all.cfg.Logger.Error("stop desktop", "desktop", sl.id, "error", err)
		} else {
			sl.all.cfg.Logger.Info("desktop stopped", "desktop", sl.id, "took", time.Since(begun).Round(time.Millisecond))
		}
		close(change.done)
	})
}

// wait returns when a transition is over, or an error when it takes too long.
func (t *transition) wait(ctx context.Context, op string) error {
	limit := startLimit + stopLimit
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &desktop.DeadlineError{Op: op, After: limit}
	}
}

// status tells how the desktop is. It does not wait for anything.
func (sl *slot) status() (state desktop.State, status desktop.Status, d Desktop, failure *desktop.Failure) {
	sl.mu.Lock()
	phase, d, failure := sl.phase, sl.desk, sl.failure
	sl.mu.Unlock()
	switch {
	case phase == starting:
		return desktop.StateStarting, status, nil, nil
	case phase == stopping:
		return desktop.StateStopping, d.Status(), nil, nil
	case phase == running:
		status = d.Status()
		return status.State, status, d, status.LastError
	case failure != nil:
		return desktop.StateFailed, status, nil, failure
	}
	return desktop.StateInactive, status, nil, nil
}

// config is what a start asks for.
func (sl *slot) config(o startOptions) (desktop.Config, error) {
	cfg := o.config()
	cfg.ID = sl.id
	if o.StateDir != nil && *o.StateDir != "" {
		cfg.StateDir = expandHome(*o.StateDir)
	} else {
		var err error
		if cfg.StateDir, cfg.Home, err = sl.all.places.of(sl.id); err != nil {
			return cfg, err
		}
	}
	cfg.EnvPolicy, cfg.Secrets = sl.all.cfg.EnvPolicy, sl.all.cfg.Secrets
	switch {
	case sl.all.cfg.users.desktop.Credential != nil:
		cfg.RunAs, cfg.Home = sl.all.cfg.DesktopUser, ""
		if !sl.generated {
			cfg.Home = sl.all.cfg.users.homeOf(sl.id)
		}
	case cfg.Home != "":
		// Earlier versions let others look into it.
		if err := errors.Join(os.MkdirAll(cfg.Home, 0o700), os.Chmod(cfg.Home, 0o700)); err != nil {
			return cfg, fmt.Errorf("home: %w", err)
		}
	}
	cfg.ProgramMenu = sl.all.cfg.DesktopMenu
	cfg.ShareAuthority = true
	cfg.Logger = sl.all.cfg.Logger
	return cfg, nil
}

// discard removes the files of a desktop whose id nobody chose.
func (sl *slot) discard() error {
	if !sl.generated {
		return nil
	}
	// Where it would be, if it has none because it was started elsewhere: no other
	// server has one of that id.
	dir := stateOf(sl.all.places.where().dir, sl.id)
	if err := errors.Join(sl.recordings.discard(), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove files of desktop %s: %w", sl.id, err)
	}
	return nil
}
