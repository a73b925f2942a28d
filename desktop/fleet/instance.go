package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/removetree"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Deadlines of starts and stops.
const (
	startLimit = 45 * time.Second
	stopLimit  = 15 * time.Second
	// removeLimit bounds the removal of files, which programs of the server's user could prolong.
	removeLimit = time.Minute
)

// Instance is a desktop of a Fleet. It may be started and stopped many times.
type Instance struct {
	id        string
	fleet     *Fleet
	generated bool // the Fleet chose the id, so Delete removes the files, too
	live      liveView

	recordings recordings
	browsers   browserSlot
	elements   elementSlot
	refs       atomic.Int64 // references to elements
	used       atomic.Int64 // when a caller last used the desktop, in nanoseconds

	mu         sync.Mutex // guards the fields below; never held while waiting
	phase      phase
	desk       Desktop       // while running or stopping
	began      time.Time     // when desk began to run
	ended      chan struct{} // closed when desk begins to stop
	wasIdle    bool          // it was stopped because it was idle, and not started or stopped since
	options    StartOptions  // of the latest start
	failure    error         // of the latest start; nil: it succeeded
	transition *transition   // while starting or stopping
	deleted    bool          // it must not start again

	removing sync.Once // by Delete
	removed  error     // the result of removing
}

type phase int

const (
	idle phase = iota
	starting
	running
	stopping
)

// transition is a running start or stop.
type transition struct {
	done    chan struct{}      // closed when the transition has ended
	err     error              // of a start; set before done is closed
	cancel  context.CancelFunc // ends a start
	stopped bool               // Stop was called during a start; guarded by Instance.mu
}

func (f *Fleet) newInstance(id string) *Instance {
	in := &Instance{id: id, fleet: f}
	in.recordings.instance = in
	in.browsers.init()
	in.elements.init()
	return in
}

// ID returns the id of the desktop.
func (in *Instance) ID() string { return in.id }

// Desktop returns the desktop while it runs: what Config.Start returned, or a
// *desktop.Desktop. Otherwise the error is a *StateError.
func (in *Instance) Desktop() (Desktop, error) {
	state, d, cause := in.state()
	if state != desktop.StateActive {
		return nil, &StateError{in.id, state, cause}
	}
	return d, nil
}

// Began returns the time at which the desktop that runs or stops began to run. It distinguishes
// the starts of a desktop.
func (in *Instance) Began() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.began
}

// state returns the state, the desktop while it runs or stops, and the error of the latest
// start if the state is failed.
func (in *Instance) state() (desktop.State, Desktop, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.phase == starting:
		return desktop.StateStarting, nil, nil
	case in.phase == running:
		return desktop.StateActive, in.desk, nil
	case in.phase == stopping:
		return desktop.StateStopping, in.desk, nil
	case in.failure != nil:
		return desktop.StateFailed, nil, in.failure
	}
	return desktop.StateInactive, nil, nil
}

// Status describes a desktop that may not run.
type Status struct {
	// Status is the status of the running desktop. ID, State and LogPath are always set.
	desktop.Status

	// Desktop is the desktop while it runs. Otherwise it is nil.
	Desktop Desktop

	// Idle reports whether the desktop was stopped because it was idle. See Config.IdleStop.
	Idle bool

	// Err is the error of the latest start. It is nil if that succeeded or was stopped,
	// and after Stop.
	Err error
}

// Status describes the desktop. It does not block.
func (in *Instance) Status() Status {
	state, d, err := in.state()
	s := Status{Err: err}
	in.mu.Lock()
	s.Idle = in.wasIdle
	in.mu.Unlock()
	if d != nil {
		s.Status = d.Status()
	}
	if state == desktop.StateActive {
		s.Desktop = d
	} else {
		s.State = state
	}
	s.ID = in.id
	if s.LogPath == "" { // the path that the next start uses
		s.LogPath = filepath.Join(desktopDir(in.fleet.stateDir.Path(), in.id), desktop.LogName)
	}
	return s
}

// Start starts the desktop unless it runs. All callers that wait for a start get its
// result, and the options of the first one apply.
//
// It waits for a running stop, and then blocks until the desktop runs or ctx ends. If
// ctx ends, Start returns its error and the start continues, until Stop. A start fails with
// a *desktop.DeadlineError after 45 s. A caller waits for a stop or a start for at most
// 60 s.
//
// It returns the error of Config.Start or StateDir.Claim, an *InvalidError if another user
// could replace Desktop.StateDir, or ErrClosed. The error wraps ErrNoMemory, ErrStopped if
// Stop was called meanwhile, and ErrNotFound after Delete.
func (in *Instance) Start(ctx context.Context, o StartOptions) error {
	if o.Desktop.StateDir != "" {
		dir, err := filepath.Abs(o.Desktop.StateDir)
		if err == nil {
			err = refuseReplaceable("Desktop.StateDir", dir, in.fleet.untrusted)
		}
		if err != nil {
			return err
		}
	}
	for {
		in.mu.Lock()
		switch in.phase {
		case running:
			in.mu.Unlock()
			return nil
		case idle:
			err := error(&Error{in.id, ErrNotFound})
			if !in.deleted {
				err = in.beginStart(o)
			}
			if err != nil {
				in.mu.Unlock()
				return err
			}
		case starting, stopping:
		}
		change, was := in.transition, in.phase
		in.mu.Unlock()
		if err := change.wait(ctx, "start desktop"); err != nil {
			return err
		}
		if was == starting {
			return change.err
		}
	}
}

// beginStart starts the desktop in a goroutine. The caller has mu.
func (in *Instance) beginStart(o StartOptions) error {
	f := in.fleet
	if f.cfg.MinMemory > 0 && supervise.AvailableMemory() < f.cfg.MinMemory {
		return &Error{in.id, ErrNoMemory}
	}
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.running.Add(1)
	}
	f.mu.Unlock()
	if closed {
		return ErrClosed
	}
	limit := &desktop.DeadlineError{Op: "start desktop", After: startLimit}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startLimit, limit)
	change := &transition{done: make(chan struct{}), cancel: cancel}
	in.phase, in.transition, in.failure, in.options, in.wasIdle = starting, change, nil, o, false
	f.notifyChanged()
	begun := time.Now()
	go func() {
		defer f.running.Done()
		defer cancel()
		d, err := in.run(ctx, o)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = limit
		}
		in.logStart(d, err, time.Since(begun))
		in.endStart(change, d, err)
	}()
	return nil
}

// run starts the desktop and returns it.
func (in *Instance) run(ctx context.Context, o StartOptions) (Desktop, error) {
	cfg, err := in.desktopConfig(o.Desktop)
	if err != nil {
		return nil, err
	}
	if o.Desktop.StateDir == "" {
		if err := in.markGenerated(); err != nil {
			in.fleet.cfg.Logger.Warn("should this program be killed, files of a desktop will stay", "desktop", in.id, "error", err)
		}
	}
	if o.Elements {
		return in.startWithElements(ctx, cfg)
	}
	return in.fleet.cfg.Start(ctx, in.id, cfg)
}

func (in *Instance) logStart(d Desktop, err error, took time.Duration) {
	log := in.fleet.cfg.Logger.With("desktop", in.id, "took", took.Round(time.Millisecond))
	switch {
	case err == nil:
		log.Info("desktop started", "display", d.Status().Display)
	case errors.Is(err, context.Canceled):
		log.Info("desktop stopped while it was starting")
	default:
		log.Warn("desktop did not start", "error", err)
	}
}

// endStart records the result of a start.
func (in *Instance) endStart(change *transition, d Desktop, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	defer close(change.done)
	defer in.fleet.notifyChanged()
	if err == nil {
		in.phase, in.desk, in.transition, in.began = running, d, nil, time.Now()
		in.ended = make(chan struct{})
		if in.fleet.cfg.IdleStop > 0 {
			in.Use()
			ended := in.ended
			in.fleet.running.Go(func() { in.watchIdle(d, ended) })
		}
		return
	}
	in.phase, in.transition = idle, nil
	if change.stopped {
		change.err = &Error{in.id, ErrStopped}
		return
	}
	in.failure, change.err = err, err
}

// Stop ends the desktop, its live view and its recordings, and clears the error of the
// latest start. It does not affect later calls of Start.
//
// It blocks until the desktop has ended. It returns nil if the desktop does not run, and
// does not return failures of the stop, which are logged. It returns the error of ctx if
// that ends, and a *desktop.DeadlineError after 60 s. In both cases the stop continues.
func (in *Instance) Stop(ctx context.Context) error {
	for {
		in.mu.Lock()
		switch in.phase {
		case idle:
			in.failure, in.wasIdle = nil, false
			in.mu.Unlock()
			return nil
		case starting:
			in.transition.stopped = true
			in.transition.cancel()
		case running:
			in.beginStop()
		case stopping:
		}
		change, now := in.transition, in.phase
		in.mu.Unlock()
		if err := change.wait(ctx, "stop desktop"); err != nil {
			return err
		}
		if now == stopping || change.err != nil {
			return nil //nolint:nilerr // a start that failed leaves nothing to stop
		}
	}
}

// beginStop stops the desktop in a goroutine. The caller has mu.
func (in *Instance) beginStop() {
	change := &transition{done: make(chan struct{})}
	in.phase, in.transition = stopping, change
	close(in.ended)
	in.fleet.notifyChanged()
	begun := time.Now()
	in.fleet.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		// Recordings end before the desktop, because they need its picture.
		err := errors.Join(in.live.close(), in.recordings.stop(ctx), in.endBrowser(), in.elements.close(), in.desk.Close())
		in.mu.Lock()
		defer in.mu.Unlock()
		in.phase, in.desk, in.transition = idle, nil, nil
		in.fleet.notifyChanged()
		if err != nil {
			in.fleet.cfg.Logger.Error("stop desktop", "desktop", in.id, "error", err)
		} else {
			in.fleet.cfg.Logger.Info("desktop stopped", "desktop", in.id, "took", time.Since(begun).Round(time.Millisecond))
		}
		close(change.done)
	})
}

// Delete stops the desktop permanently and frees its id. If the Fleet chose the id, it
// removes the files with the recordings, and keeps them otherwise. Main is only stopped.
//
// Delete blocks and fails as Stop does. If it fails so, the stop continues but the desktop is not
// deleted: call Delete again. Once the desktop has stopped, Delete removes the files, whatever
// ctx, and returns the errors of that. Later calls return the same error.
func (in *Instance) Delete(ctx context.Context) error {
	if in.id == Main {
		return in.Stop(ctx)
	}
	for deleted := false; !deleted; { // another caller may start it again
		if err := in.Stop(ctx); err != nil {
			return err
		}
		in.mu.Lock()
		in.deleted = in.phase == idle
		deleted = in.deleted
		in.mu.Unlock()
	}
	in.removing.Do(func() {
		in.fleet.cfg.OnDelete(in.id)
		in.removed = errors.Join(in.recordings.close(), in.discard())
		in.fleet.remove(in) // first, so that no request finds recordings that are being removed
	})
	return in.removed
}

// discard removes the files of a desktop whose id the Fleet chose.
func (in *Instance) discard() error {
	if !in.generated {
		return nil
	}
	// A desktop that was started with a StateDir has no files here: no other program
	// has a desktop of this id.
	dir := desktopDir(in.fleet.stateDir.Path(), in.id)
	if err := errors.Join(in.recordings.discard(), removetree.Remove(dir, time.Now().Add(removeLimit))); err != nil {
		return fmt.Errorf("remove files of desktop %s: %w", in.id, err)
	}
	return nil
}

// wait waits for the end of a transition. It returns an error if that takes too long.
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

// desktopConfig completes the configuration of a desktop.
func (in *Instance) desktopConfig(cfg desktop.Config) (desktop.Config, error) {
	f := in.fleet
	chosen := cfg.Home != "" // by the caller
	cfg.ID, cfg.RunAs = in.id, ""
	cfg.Logger = cmp.Or(cfg.Logger, f.cfg.Logger)
	if cfg.StateDir == "" {
		state, home, err := f.stateDir.claimFor(in.id)
		if err != nil {
			return cfg, err
		}
		if cfg.StateDir = state; !chosen {
			cfg.Home = home
		}
	}
	switch {
	case f.runAs.Credential != nil:
		if cfg.RunAs = f.cfg.RunAs; chosen {
			break
		}
		if cfg.Home = ""; !in.generated {
			cfg.Home = homeOf(f.runAs, in.id)
		}
	case cfg.Home != "" && !chosen:
		// Earlier versions let other users read it.
		if err := errors.Join(os.MkdirAll(cfg.Home, 0o700), os.Chmod(cfg.Home, 0o700)); err != nil {
			return cfg, fmt.Errorf("home: %w", err)
		}
	}
	return cfg, nil
}
