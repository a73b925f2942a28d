package x11

import "context"

// Follow is [quiesce.Tracker.Follow] with the window manager of w.
func (in *Input) Follow(w *Windows) {
	in.following = true
	in.programs.Follow(w.Manager)
}

// FollowClipboard is [quiesce.Tracker.FollowClipboard].
func (in *Input) FollowClipboard(cb *Clipboard) { in.programs.FollowClipboard(cb) }

// Quiesce is [quiesce.Tracker.Quiesce].
func (in *Input) Quiesce(ctx context.Context) error {
	return in.locked(func() error { return in.programs.Quiesce(ctx) })
}

// QuiescePointer is [quiesce.Tracker.AwaitPointer].
func (in *Input) QuiescePointer(ctx context.Context) error {
	return in.locked(func() error {
		_, err := in.programs.AwaitPointer(ctx)
		return err
	})
}

// Shown is [quiesce.Tracker.Shown].
func (in *Input) Shown(window Window) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.programs.Shown(window)
}

// Unheard is [quiesce.Tracker.Unheard]. The caller calls Quiesce first, which waits for
// the focus.
func (in *Input) Unheard() (win Window, err error) {
	err = in.locked(func() error {
		win, err = in.programs.Unheard()
		return err
	})
	return win, err
}

// AwaitListener is [quiesce.Tracker.AwaitListener]. Other methods may be called meanwhile.
func (in *Input) AwaitListener(ctx context.Context, window Window) error {
	return in.programs.AwaitListener(ctx, window)
}
