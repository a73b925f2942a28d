package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/webrtc"
)

// Fleet is a set of desktops by id. Main is always one of them.
type Fleet struct {
	cfg      Config // with defaults
	stateDir *StateDir
	runAs    supervise.User
	networks networks
	running  sync.WaitGroup // running starts and stops
	end      func() error   // closeDesktops, once

	untrusted []supervise.User // runAs and the users of Config.Untrusted

	mu        sync.Mutex // guards the fields below
	instances []*Instance
	gone      []*Instance     // deleted or of an earlier program, with recordings; see FindRecorded
	removing  map[string]bool // ids whose files Sweep removes
	closed    bool

	changing sync.Mutex    // guards changed
	changed  chan struct{} // closed at the next change; nil: no caller waits
}

// Open returns a Fleet whose desktops do not run. It starts no program and claims
// nothing: the state directory is claimed when it is first needed. It returns an
// *InvalidError if cfg cannot be used, and the error of ctx if that has ended. The
// caller must call Close.
func Open(ctx context.Context, cfg Config) (*Fleet, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	runAs, untrusted, err := cfg.lookUpUsers()
	if err != nil {
		return nil, err
	}
	dir, err := newStateDir(cfg)
	if err != nil {
		return nil, err
	}
	if err := refuseReplaceable("StateDir", dir.base, untrusted); err != nil {
		return nil, err
	}
	if cfg.RecordingsDir != "" {
		dir, err := filepath.Abs(cfg.RecordingsDir)
		if err == nil {
			err = refuseReplaceable("RecordingsDir", dir, untrusted)
		}
		if err != nil {
			return nil, err
		}
	}
	f := &Fleet{cfg: cfg, stateDir: dir, runAs: runAs, untrusted: untrusted, networks: networks{cfg: cfg}}
	f.end = sync.OnceValue(f.closeDesktops)
	f.instances = []*Instance{f.newInstance(Main)}
	return f, nil
}

// StateDir returns the directory of the desktops' files.
func (f *Fleet) StateDir() *StateDir { return f.stateDir }

// TCP returns the webrtc.TCP that takes the connections of live views from a listener for
// HTTP: Config.Media.TCP, or the Fleet's own if that is nil.
func (f *Fleet) TCP() *webrtc.TCP { return f.networks.sharing() }

// OpenNetwork opens the ports of Config.Media now. The first live view opens them
// otherwise. It returns the error of webrtc.NewNetwork, or ErrClosed after Close.
func (f *Fleet) OpenNetwork() error {
	_, err := f.networks.get()
	return err
}

// Find returns the desktop with an id. The error wraps ErrNotFound if there is none.
func (f *Fleet) Find(id string) (*Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.instances, hasID(id)); i >= 0 {
		return f.instances[i], nil
	}
	return nil, &Error{id, ErrNotFound}
}

// List returns the desktops in the order of their creation. The first is Main.
func (f *Fleet) List() []*Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.instances)
}

// Changed returns a channel that is closed when the state of a desktop next changes, or a
// desktop is added or removed.
func (f *Fleet) Changed() <-chan struct{} {
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// notifyChanged closes the channel of Changed.
func (f *Fleet) notifyChanged() {
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Create adds a desktop and starts it. If id is empty, the Fleet chooses one, and
// Delete or Close removes the desktop's files with its recordings.
//
// It blocks as Start does. If the start fails, it removes the desktop and returns the
// error of Start. If ctx ends first, it stops the start, removes the desktop and returns
// the error of ctx. Its other errors are an *InvalidError or a *LimitError, wrap ErrExists
// or ErrRemoving, or are ErrClosed.
func (f *Fleet) Create(ctx context.Context, id string, o StartOptions) (*Instance, error) {
	generated := id == ""
	if generated {
		id = "d-" + strings.ToLower(rand.Text()[:12])
	}
	if err := CheckID(id); err != nil {
		return nil, err
	}
	in, err := f.add(id, generated)
	if err != nil {
		return nil, err
	}
	if err := in.Start(ctx, o); err != nil {
		if cleanup := in.Delete(context.WithoutCancel(ctx)); cleanup != nil {
			err = fmt.Errorf("%w (and then: %w)", err, cleanup)
		}
		return nil, err
	}
	return in, nil
}

// add adds a desktop that has not been started.
func (f *Fleet) add(id string, generated bool) (*Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, ErrClosed
	case f.removing[id]:
		return nil, &Error{id, ErrRemoving}
	case len(f.instances) >= f.cfg.MaxDesktops:
		return nil, &LimitError{f.cfg.MaxDesktops}
	case slices.ContainsFunc(f.instances, hasID(id)):
		return nil, &Error{id, ErrExists}
	}
	in := f.newInstance(id)
	if i := slices.IndexFunc(f.gone, hasID(id)); i >= 0 { // its recordings are open
		in = f.gone[i]
		f.gone = slices.Delete(f.gone, i, i+1)
	}
	in.generated = generated
	f.instances = append(f.instances, in)
	f.notifyChanged()
	return in, nil
}

// remove frees the id of a desktop that has stopped.
func (f *Fleet) remove(in *Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances = slices.DeleteFunc(f.instances, func(other *Instance) bool { return other == in })
	f.notifyChanged()
}

func hasID(id string) func(*Instance) bool {
	return func(in *Instance) bool { return in.id == id }
}

// CloseDesktops ends all desktops, live views and recordings permanently, and waits for
// that. It keeps the state directory claimed, for programs that have their own files in it
// and close them later. It may be called more than once, and returns the same error: of
// closing recordings and networks, of removing files, or a *desktop.DeadlineError. It logs
// failures to stop a desktop.
func (f *Fleet) CloseDesktops() error { return f.end() }

func (f *Fleet) closeDesktops() error {
	f.mu.Lock()
	f.closed = true
	all := slices.Concat(f.instances, f.gone)
	f.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, in := range all {
		wg.Go(func() { errs[i] = in.Stop(context.Background()) })
	}
	wg.Wait()
	f.running.Wait()
	for _, in := range all {
		errs = append(errs, in.recordings.close(), in.discard())
	}
	return errors.Join(append(errs, f.networks.close())...)
}

// Close calls CloseDesktops and then releases the state directory. It returns the errors
// of both. It may be called more than once.
func (f *Fleet) Close() error {
	f.stateDir.BeginClose()
	return errors.Join(f.CloseDesktops(), f.stateDir.release())
}
