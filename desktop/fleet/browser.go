package fleet

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// browserSlot holds the browser of a desktop.
type browserSlot struct {
	slot // guards the fields below; taken while a browser starts and ends

	desk    Desktop // that shows the browser
	browser *browser.Browser

	current atomic.Pointer[browser.Browser]
}

// Browser returns the browser of the desktop. The error wraps ErrNoBrowser if none runs.
func (in *Instance) Browser() (*browser.Browser, error) {
	b := in.browsers.current.Load()
	if b != nil {
		select {
		case <-b.Done():
		default:
			return b, nil
		}
	}
	return nil, &Error{in.id, ErrNoBrowser}
}

// StartBrowser starts a browser on the running desktop, unless one runs, and returns it. It sets
// Desktop, NextRef and, if it is nil, Logger of cfg. The browser lives until StopBrowser or
// Stop. A call waits for a start by another caller. It returns a *StateError if the desktop does
// not run, an error that wraps ErrNoBrowser if it is not a *desktop.Desktop, context.Canceled if
// StopBrowser is called meanwhile, or the error of browser.Start or of ctx.
func (in *Instance) StartBrowser(ctx context.Context, cfg browser.Config) (b *browser.Browser, started bool, err error) {
	s := &in.browsers
	ctx, d, release, err := in.take(ctx, &s.slot)
	if err != nil {
		return nil, false, err
	}
	defer release()
	desk, ok := d.(*desktop.Desktop)
	if !ok {
		return nil, false, &Error{in.id, ErrNoBrowser}
	}
	if b, err := in.Browser(); err == nil && s.desk == d {
		return b, false, nil
	}
	if err := s.end(); err != nil {
		return nil, false, err
	}
	cfg.Desktop, cfg.NextRef, cfg.Logger = desk, in.NextRef, cmp.Or(cfg.Logger, in.fleet.cfg.Logger)
	if b, err = browser.Start(ctx, cfg); err != nil {
		return nil, false, err
	}
	s.desk, s.browser = d, b
	s.current.Store(b)
	return b, true, nil
}

// StopBrowser is an input that ends the browser, if one runs, and waits for that. It returns the
// error of browser.Stop. It also ends the calls of StartBrowser that are under way. It returns nil
// if no browser runs.
func (in *Instance) StopBrowser(ctx context.Context) error {
	if b, err := in.Browser(); err == nil {
		if err := b.Stop(ctx); err != nil {
			return err
		}
	}
	return in.endBrowser()
}

// endBrowser ends the browser, if one runs or starts, and waits for that.
func (in *Instance) endBrowser() error {
	defer in.browsers.takeOver()()
	return in.browsers.end()
}

// end ends the browser. The caller has the slot.
func (s *browserSlot) end() error {
	if s.browser == nil {
		return nil
	}
	b := s.browser
	s.browser = nil
	s.current.CompareAndSwap(b, nil)
	return b.Close()
}

// NextRef returns the number of the next reference to an element of a page or an application
// on this desktop.
func (in *Instance) NextRef() int { return int(in.refs.Add(1)) }

// ErrNoBrowser is wrapped by an *Error if no browser runs on a desktop, or if its kind cannot
// have one.
var ErrNoBrowser = errors.New("no browser runs on this desktop; start it first")
