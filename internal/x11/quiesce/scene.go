package quiesce

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

const (
	// sceneRounds bounds how often Quiesce waits for windows that open or close meanwhile.
	sceneRounds = 4
	// maxListed bounds the windows whose opening and closing look sees.
	maxListed = 512
	// takenLimit is how long a program may take to accept the focus that the window
	// manager offers it.
	takenLimit = 150 * time.Millisecond
)

// scene is what shows that a window has opened or closed, or the focus has moved.
type scene struct {
	focus   xproto.Window
	active  uint32 // _NET_ACTIVE_WINDOW; 0: no window of the list has the focus
	windows uint64 // hash of the list of managed windows; 0: there are none
}

var sceneSeed = maphash.MakeSeed()

// look returns the present scene.
func (t *Tracker) look() (scene, error) {
	d, names := t.display, &t.tree.names
	focused := xproto.GetInputFocus(d.X)
	active := request.Property(d.X, d.Root, names.active, 1)
	listed := request.Property(d.X, d.Root, names.clients, maxListed)
	f, err := focused.Reply()
	if err != nil {
		return scene{}, request.Wrap("ask for the focus", err)
	}
	a, err := active.Reply()
	if err != nil {
		return scene{}, request.Wrap("ask for the active window", err)
	}
	list, err := listed.Reply()
	if err != nil {
		return scene{}, request.Wrap("list windows", err)
	}
	s := scene{focus: f.Focus, active: request.Word(a)}
	if len(list.Value) > 0 {
		s.windows = maphash.Bytes(sceneSeed, list.Value)
	}
	return s, nil
}

// awaitTaken waits until a window has the focus, if there are windows. The window manager
// only offers the focus to some programs, such as Java programs, which then take it (ICCCM 4.1.7,
// globally active input).
func (t *Tracker) awaitTaken(ctx context.Context, now scene) (scene, error) {
	if now.active != 0 || now.windows == 0 {
		return now, nil
	}
	err := within(ctx, takenLimit, func(ctx context.Context) error {
		return t.display.poll(ctx, func() (_ bool, err error) {
			now, err = t.look()
			return now.active != 0 || now.windows == 0, err
		})
	})
	return now, t.fatal(ctx, now.focus, err)
}
