package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/recording"
)

// recordings are those of one slot's desktop, which outlive it and the server.
// Their store is opened when it is first needed.
type recordings struct {
	slot *slot

	starting sync.Mutex // held while a recording starts, so that the contract's is one

	mu      sync.Mutex // guards what follows
	opened  *recording.Store
	current *recording.Recording // the one that recording/start began last
	closed  bool

	watch    sync.Mutex // guards what follows, and what watchers have gathered
	watchers []*recordingWatch
}

// recordingsName is the directory of recordings, among a desktop's files.
const recordingsName = "recordings"

// recordingsDir is where the recordings of a slot are. The state directory, if
// they are in there, is what in says: claim or look of places.
func (sl *slot) recordingsDir(in func() (string, error)) (string, error) {
	if base := sl.all.cfg.RecordingsDir; base != "" {
		base = expandHome(base)
		if sl.id != mainDesktop {
			base = filepath.Join(base, othersName, sl.id)
		}
		return filepath.Abs(base)
	}
	dir, err := in()
	return filepath.Join(stateOf(dir, sl.id), recordingsName), err
}

// store returns the slot's store, and opens it if need be.
func (r *recordings) store(ctx context.Context) (*recording.Store, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, shuttingDown.problem("the desktop or the server is going away")
	case r.opened != nil:
		return r.opened, nil
	}
	dir, err := r.slot.recordingsDir(r.slot.all.places.claim)
	if err != nil {
		return nil, err
	}
	cfg := r.slot.all.cfg
	r.opened, err = recording.Open(ctx, recording.StoreConfig{
		Dir: dir, Retention: cfg.Retention, Notify: r.changed, Logger: cfg.Logger.With("desktop", r.slot.id),
	})
	if err != nil {
		return nil, fmt.Errorf("recordings of desktop %s: %w", r.slot.id, err)
	}
	return r.opened, nil
}

// end ends what records the desktop, which is about to stop.
func (r *recordings) end(ctx context.Context) error {
	r.mu.Lock()
	store := r.opened
	r.mu.Unlock()
	if store == nil {
		return nil
	}
	return store.StopAll(ctx, recording.ReasonDesktopClosed)
}

// close closes the store for good.
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

// discard removes the files of recordings that nobody will ask for.
func (r *recordings) discard() error {
	dir, err := r.slot.recordingsDir(func() (string, error) { return r.slot.all.places.where().dir, nil })
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// OpenRecordings looks now for what earlier servers recorded of main, and begins
// to repair what they left unfinished, rather than with the first request that is
// about recordings.
func (s *Server) OpenRecordings(ctx context.Context) error {
	_, err := s.desktops.find(mainDesktop).recordings.store(ctx)
	return err
}

// begin starts a recording. That of the contract is alone at a time.
func (r *recordings) begin(ctx context.Context, d recording.Desktop, cfg recording.Config, alone bool) (*recording.Recording, error) {
	store, err := r.store(ctx)
	if err != nil {
		return nil, err
	}
	if !alone {
		return store.Start(ctx, d, cfg)
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	if r.active() != nil {
		return nil, conflictOf("a desktop recording is already active")
	}
	rec, err := store.Start(ctx, d, cfg)
	if err == nil {
		r.mu.Lock()
		r.current = rec
		r.mu.Unlock()
	}
	return rec, err
}

// active is the recording that recording/start began, while it goes on.
func (r *recordings) active() *recording.Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return nil
	}
	select {
	case <-r.current.Done():
		r.current = nil
	default:
	}
	return r.current
}

// recordingEventType is the type of events about recordings.
const recordingEventType = "recording"

// recordingEvent tells of a recording that has changed.
type recordingEvent struct {
	Type      string        `json:"type"`
	Time      time.Time     `json:"time"`
	Desktop   string        `json:"desktop"`
	Recording recordingInfo `json:"recording"`

	info recording.Info
}

// recordingWatch gathers what changes for one reader: of each recording the
// latest alone, so that a slow one costs no more.
type recordingWatch struct {
	of      *recordings
	changed chan struct{} // has an element when there is something to take
	pending []*recordingEvent
}

// running returns the recordings that go on.
func (r *recordings) running() []recording.Info {
	r.mu.Lock()
	store := r.opened
	r.mu.Unlock()
	if store == nil {
		return nil
	}
	return slices.DeleteFunc(store.List(), func(info recording.Info) bool { return !info.Active() })
}

// follow begins to gather changes.
func (r *recordings) follow() *recordingWatch {
	w := &recordingWatch{of: r, changed: make(chan struct{}, 1)}
	r.watch.Lock()
	defer r.watch.Unlock()
	r.watchers = append(r.watchers, w)
	return w
}

// changed tells those who follow. The store calls it.
func (r *recordings) changed(info recording.Info) {
	e := &recordingEvent{Type: recordingEventType, Time: time.Now(), Desktop: r.slot.id, Recording: infoOfRecording(info), info: info}
	r.watch.Lock()
	defer r.watch.Unlock()
	for _, w := range r.watchers {
		w.pending = append(slices.DeleteFunc(w.pending, func(o *recordingEvent) bool { return o.Recording.ID == info.ID }), e)
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// take returns what has changed since the last call.
func (w *recordingWatch) take() []*recordingEvent {
	w.of.watch.Lock()
	defer w.of.watch.Unlock()
	events := w.pending
	w.pending = nil
	return events
}

func (w *recordingWatch) close() {
	w.of.watch.Lock()
	defer w.of.watch.Unlock()
	w.of.watchers = slices.DeleteFunc(w.of.watchers, func(o *recordingWatch) bool { return o == w })
}

// recordingFields are the names that fields of recording.Config have in requests,
// where they differ.
var recordingFields = map[string]string{
	"frameRate": "fps", "maxDuration": "maxDurationMs", "segmentLength": "segmentMs", "thumbnailInterval": "thumbnailMs",
}

// recordingProblem is the answer to an error of package recording, or nil.
func recordingProblem(err error) *Problem {
	var bad *recording.InvalidError
	var missing *recording.MissingError
	switch {
	case errors.As(err, &bad):
		field := cmp.Or(recordingFields[bad.Field], bad.Field)
		return invalid(field, field+" "+bad.Problem)
	case errors.As(err, &missing):
		return conflictOf("ffmpeg is required for desktop recording").
			with("missingDependencies", missing.Programs).with("installCommand", installCommand)
	case errors.Is(err, recording.ErrTooMany):
		return conflictOf(err.Error())
	case errors.Is(err, recording.ErrActive):
		return conflictOf("stop the active desktop recording before deleting it")
	case errors.Is(err, recording.ErrNotActive):
		return conflictOf("the recording has ended")
	case errors.Is(err, recording.ErrLocked):
		return conflictOf(err.Error())
	case errors.Is(err, recording.ErrTimelineFull):
		return conflictOf(err.Error())
	case errors.Is(err, recording.ErrClosed):
		return shuttingDown.problem("the desktop or the server is going away")
	}
	return nil
}
