package webrtc

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// clipboardMost is how many bytes of text the clipboard may have for viewers.
	clipboardMost = 1 << 20

	// clipboardPause is the time between two texts, and clipboardLimit the longest
	// time that a program may take to send one.
	clipboardPause = 500 * time.Millisecond
	clipboardLimit = 5 * time.Second
)

// followClipboard sends the clipboard's text to the client when the text changes and
// the client has control. Programs can change the clipboard at any rate, so texts are
// fetched one at a time, with a pause in between, and only if a viewer gets them.
func (g *signaling) followClipboard(ctx context.Context, copied <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		if !arrives(ctx, copied) || !arrives(ctx, pause.C) {
			return
		}
		v := g.viewing()
		if v == nil || !v.controls() {
			pause.Reset(0)
			continue
		}
		if err := g.tellClipboard(ctx, v); err != nil {
			return
		}
		pause.Reset(clipboardPause)
	}
}

// arrives waits for a value. It returns false if ctx ends before one arrives.
func arrives[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// tellClipboard sends the copied text to the viewer that has control.
func (g *signaling) tellClipboard(ctx context.Context, v *viewer) error {
	fetching, cancel := context.WithTimeout(desktop.WithActor(ctx, v.actor), clipboardLimit)
	defer cancel()
	c, err := g.s.d.Clipboard(fetching, desktop.Clipboard, desktop.TypeText)
	if err != nil || len(c.Data) > clipboardMost || !v.controls() {
		return nil //nolint:nilerr // the clipboard may hold a picture, or nothing
	}
	return g.send(ctx, "clipboard/updated", map[string]string{"text": string(c.Data)})
}
