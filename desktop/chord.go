package desktop

import (
	"context"

	"github.com/deskhand/deskhand/internal/x11"
)

// ChordWatch waits for a chord on a display. Make one with [WatchChord].
type ChordWatch struct{ conn *x11.Conn }

// WatchChord calls pressed whenever a chord such as "ctrl+alt+shift+Escape" is pressed on
// a display, whichever window has the focus, so that the person there can stop a program.
// authority is the display's X authority file; empty: XAUTHORITY, or ~/.Xauthority.
// pressed must not block. ctx bounds only the call.
func WatchChord(ctx context.Context, display, authority, chord string, pressed func()) (*ChordWatch, error) {
	conn, err := x11.Dial(ctx, x11.Config{Display: display, Authority: authority})
	if err != nil {
		return nil, err
	}
	if err := conn.GrabChord(chord, pressed); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &ChordWatch{conn}, nil
}

// Close ends the watch. pressed must not call it.
func (w *ChordWatch) Close() error { return w.conn.Close() }
