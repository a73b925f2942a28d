package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/deskhand/deskhand/recording"
)

// recordings are the recordings of one instance, which outlive its desktop and this
// program. Their store is opened when it is first needed.
type recordings struct {
	instance *Instance

	starting sync.Mutex // held while an exclusive recording starts

	mu        sync.Mutex // guards the fields below
	opened    *recording.Store
	exclusive *recording.Recording // the latest one
	closed    bool

	subscribing   sync.Mutex // guards the fields below, and the contents of subscriptions
	subscriptions []*RecordingSubscription
}

// recordingsName is the folder of recordings among the files of a desktop.
const recordingsName = "recordings"

// dir returns the directory of the recordings. stateDir returns the state directory,
// which is only needed if they are in there.
func (r *recordings) dir(stateDir func() (string, error)) (string, error) {
	in := r.instance
	if base := in.fleet.cfg.RecordingsDir; base != "" {
		return filepath.Abs(desktopDir(base, in.id))
	}
	dir, err := stateDir()
	return filepath.Join(desktopDir(dir, in.id), recordingsName), err
}

func (r *recordings) store(ctx context.Context) (*recording.Store, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.instance
	switch {
	case r.closed:
		return nil, fmt.Errorf("recordings of desktop %s: %w", in.id, recording.ErrClosed)
	case r.opened != nil:
		return r.opened, nil
	}
	dir, err := r.dir(in.fleet.stateDir.Claim)
	if err != nil {
		return nil, err
	}
	cfg := in.fleet.cfg
	r.opened, err = recording.Open(ctx, recording.StoreConfig{
		Dir: dir, Retention: cfg.Retention, Notify: r.notify, Logger: cfg.Logger.With("desktop", in.id),
	})
	if err != nil {
		return nil, fmt.Errorf("recordings of desktop %s: %w", in.id, err)
	}
	return r.opened, nil
}

// current returns the store if it is open.
func (r *recordings) current() *recording.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened
}

// stop stops all recordings, because the desktop is about to stop.
func (r *recordings) stop(ctx context.Context) error {
	store := r.current()
	if store == nil {
		return nil
	}
	return store.StopAll(ctx, recording.ReasonDesktopClosed)
}

// close closes the store permanently.
func (r *recordings) close() error {
	r.mu.Lock()
	store := r.opened
	r.opened, r.closed = nil, true
	r.mu.Unlock()
	if store == nil {
		return nil
	}
	return store.Close()
}

// discard removes all recordings.
func (r *recordings) discard() error {
	dir, err := r.dir(func() (string, error) { return r.instance.fleet.stateDir.Path(), nil })
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Recordings returns the store of the desktop's recordings, including recordings that
// earlier programs made. The Fleet closes it. The first call opens it: it claims the state
// directory, unless Config.RecordingsDir is set, and repairs unfinished recordings in the
// background. It blocks and fails as StateDir.Claim, which does not heed ctx, and
// recording.Open do. After Delete and Close the error wraps recording.ErrClosed.
func (in *Instance) Recordings(ctx context.Context) (*recording.Store, error) {
	return in.recordings.store(ctx)
}

// Record starts a recording of the running desktop, which ends with the desktop at the
// latest. Several may run at a time. If cfg has no FrameRate, the recording has
// StartOptions.RecordingFrameRate of the latest start. It returns a *StateError if the
// desktop does not run, an error that wraps ErrNoRecording, or the error of Recordings or
// recording.Store.Start.
func (in *Instance) Record(ctx context.Context, cfg recording.Config) (*recording.Recording, error) {
	return in.record(ctx, cfg, false)
}

// RecordExclusive is like Record, but the error wraps ErrRecording if a recording that
// RecordExclusive started is active.
func (in *Instance) RecordExclusive(ctx context.Context, cfg recording.Config) (*recording.Recording, error) {
	return in.record(ctx, cfg, true)
}

func (in *Instance) record(ctx context.Context, cfg recording.Config, exclusive bool) (*recording.Recording, error) {
	d, err := in.Desktop()
	if err != nil {
		return nil, err
	}
	recorded, ok := d.(recording.Desktop)
	if !ok {
		return nil, &Error{in.id, ErrNoRecording}
	}
	if cfg.FrameRate == 0 {
		in.mu.Lock()
		cfg.FrameRate = in.options.RecordingFrameRate
		in.mu.Unlock()
	}
	r := &in.recordings
	store, err := r.store(ctx)
	if err != nil {
		return nil, err
	}
	if !exclusive {
		return store.Start(ctx, recorded, cfg)
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	if in.ExclusiveRecording() != nil {
		return nil, &Error{in.id, ErrRecording}
	}
	rec, err := store.Start(ctx, recorded, cfg)
	if err == nil {
		r.mu.Lock()
		r.exclusive = rec
		r.mu.Unlock()
	}
	return rec, err
}

// ExclusiveRecording returns the recording that RecordExclusive started while it is
// active, or nil.
func (in *Instance) ExclusiveRecording() *recording.Recording {
	r := &in.recordings
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exclusive == nil {
		return nil
	}
	select {
	case <-r.exclusive.Done():
		r.exclusive = nil
	default:
	}
	return r.exclusive
}

// ActiveRecordings returns the recordings that have not ended.
func (in *Instance) ActiveRecordings() []recording.Info {
	store := in.recordings.current()
	if store == nil {
		return nil
	}
	return slices.DeleteFunc(store.List(), func(info recording.Info) bool { return !info.Active() })
}
