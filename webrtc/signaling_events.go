package webrtc

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// presence has the viewers that the client knows. It is made before the greeting, so that the
// client gets the later changes.
type presence struct {
	sub    *desktop.Subscription
	change <-chan struct{} // closed at the next change of known
	known  []ViewerInfo
	copied chan struct{} // holds a value if the clipboard has changed
}

func (g *signaling) beginPresence() *presence {
	return &presence{sub: g.s.d.Subscribe(0), change: g.s.nextChange(), known: g.s.Viewers(), copied: make(chan struct{}, 1)}
}

// nextChange returns a channel that is closed when a viewer connects or disconnects.
func (s *Streamer) nextChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// presencePause is the time between two messages about viewers that connect and disconnect. A
// client is not told of a viewer that comes and goes in between.
const presencePause = 250 * time.Millisecond

// followPresence sends the client the viewers that connect and disconnect, events, messages about
// the pointer, and heartbeats.
func (g *signaling) followPresence(ctx context.Context, p *presence) {
	var work sync.WaitGroup
	defer work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work.Go(func() { g.followClipboard(ctx, p.copied) })
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	change, paused := p.change, (<-chan time.Time)(nil) // change is nil during a pause
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			err = g.send(ctx, "system/heartbeat", nil)
		case m := <-g.pointers:
			err = g.send(ctx, "signal/pointer", map[string][]byte{"data": m})
		case <-change:
			err = g.sendPresence(ctx, p)
			change, paused = nil, time.After(presencePause)
		case <-paused:
			change = p.change
		case e, open := <-p.sub.Events():
			if !open {
				return
			}
			switch {
			case e.Type == desktop.EventClipboardChanged && e.Selection == desktop.Clipboard:
				notify(p.copied)
			case e.Type == desktop.EventControl:
				err = g.sendPresence(ctx, p) // the client knows the holder's name then
			}
			if err == nil {
				err = g.sendEvent(ctx, e)
			}
		}
		if err != nil {
			return
		}
	}
}

// sendPointer implements pointerSink for a client without a data channel.
func (g *signaling) sendPointer(m []byte) { queuePointer(g.pointers, m) }

// sendPresence sends the differences between the viewers and the viewers that the client knows, if
// a viewer has connected or disconnected since the last call.
func (g *signaling) sendPresence(ctx context.Context, p *presence) error {
	select {
	case <-p.change:
		p.change = g.s.nextChange()
	default:
		return nil
	}
	known, now := p.known, g.s.Viewers()
	p.known = now
	in := func(list []ViewerInfo, id string) bool {
		return slices.ContainsFunc(list, func(v ViewerInfo) bool { return v.ID == id })
	}
	all := g.sessions()
	for _, v := range now {
		if !in(known, v.ID) {
			if err := g.send(ctx, "session/created", all[v.ID]); err != nil {
				return err
			}
		}
	}
	for _, v := range known {
		if !in(now, v.ID) {
			if err := g.send(ctx, "session/deleted", map[string]string{"id": v.ID}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *signaling) sendEvent(ctx context.Context, e desktop.Event) error {
	switch e.Type {
	case desktop.EventControl:
		return g.send(ctx, "control/host", g.host())
	case desktop.EventResized:
		return g.sendScreen(ctx)
	case desktop.EventFailed:
		return g.sendFailure(ctx, "desktop/failed", e.Failure)
	case desktop.EventRestarted:
		if err := g.sendScreen(ctx); err != nil {
			return err
		}
		return g.sendFailure(ctx, "desktop/restarted", e.Failure)
	default:
	}
	return nil
}

func (g *signaling) sendScreen(ctx context.Context) error {
	s := g.screen()
	return g.send(ctx, "screen/updated", map[string]any{"id": g.id, "width": s.Width, "height": s.Height, "rate": s.Rate})
}

func (g *signaling) sendFailure(ctx context.Context, event string, f *desktop.Failure) error {
	if f == nil {
		return nil
	}
	return g.send(ctx, event, map[string]any{"code": f.Code, "message": f.Message, "at": f.At})
}

const (
	// clipboardMost bounds the bytes of a text of the clipboard for viewers.
	clipboardMost = 1 << 20

	// clipboardPause is the time between two texts, and clipboardLimit the longest
	// time that a program may take to send one.
	clipboardPause = 500 * time.Millisecond
	clipboardLimit = 5 * time.Second
)

// followClipboard sends the clipboard's text to the client when the text changes and
// the client has control. Programs can change the clipboard at any rate, so texts are
// fetched one at a time, with a pause in between, and only for a viewer.
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
		if err := g.sendClipboard(ctx, v); err != nil {
			return
		}
		pause.Reset(clipboardPause)
	}
}

func arrives[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

func (g *signaling) sendClipboard(ctx context.Context, v *viewer) error {
	fetching, cancel := context.WithTimeout(desktop.WithActor(ctx, v.actor), clipboardLimit)
	defer cancel()
	c, err := g.s.d.Clipboard(fetching, desktop.Clipboard, desktop.TypeText)
	if err != nil || len(c.Data) > clipboardMost || !v.controls() {
		return nil // the clipboard may hold a picture, or nothing
	}
	return g.send(ctx, "clipboard/updated", map[string]string{"text": string(c.Data)})
}
