package x11

import (
	"context"

	"github.com/deskhand/deskhand/internal/x11/quiesce"
)

// Activity is [quiesce.Activity].
type Activity = quiesce.Activity

// Activity returns the activity of the programs on the display.
func (c *Conn) Activity() *Activity { return quiesce.NewActivity(c.quiescence()) }

// Follow is [quiesce.Tracker.Follow] with the window manager of w, which is called before the
// first input.
func (in *Input) Follow(w *Windows) {
	in.following = true
	in.Keyboard.windows = w
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

// LosesAstral is [quiesce.Tracker.LosesAstral].
func (in *Input) LosesAstral() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.programs.LosesAstral()
}
