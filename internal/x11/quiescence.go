package x11

import (
	"context"

	"github.com/jezek/xgb/xproto"
)

// Follow has keys wait until the window manager has dealt with the clicks and
// chords before them, and with what was done to windows; see package quiesce. It must
// be called before the first input.
func (in *Input) Follow(w *Windows) {
	in.following = true
	in.programs.Follow(w.manager)
}

// FollowClipboard has Quiesce wait until programs have what they asked this
// clipboard for, which is one of the same connection. It must be called before
// the first input.
func (in *Input) FollowClipboard(cb *Clipboard) { in.programs.FollowClipboard(cb) }

// Quiesce waits until the programs that got the last clicks and keys have dealt with
// these, as far as can be seen from outside, and the window manager with what came of
// it; see package quiesce.
func (in *Input) Quiesce(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	return in.programs.Quiesce(ctx)
}

// QuiescePointer waits until the window manager has dealt with the last clicks:
// until then the server may hold back what the pointer does.
func (in *Input) QuiescePointer(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	_, err := in.programs.AwaitPointer(ctx)
	return err
}

// Shown has the next Quiesce wait for the program of a window that has just
// appeared: it may have more to do before it deals with input.
func (in *Input) Shown(window Window) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.programs.Shown(xproto.Window(window))
}

// Unheard returns the window with the focus if no program wants the keys that it
// gets, for AwaitListener, and 0 if a program does, as far as is known. The focus must
// be where it belongs, as it is after Quiesce.
func (in *Input) Unheard() (Window, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return 0, err
	}
	win, err := in.programs.Unheard()
	return Window(win), err
}

// AwaitListener waits until a program wants the keys of a window, or no longer than
// package quiesce allows. Other methods may be called meanwhile.
func (in *Input) AwaitListener(ctx context.Context, window Window) error {
	return in.programs.AwaitListener(ctx, xproto.Window(window))
}
