package webrtc

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// errUnknownMessage does not quote the message, which may have typed text.
var errUnknownMessage = errors.New("unknown message")

type controlBody struct {
	Shared, Force bool
	ID            string
	Text          *string
	X, Y          *int
	Code, Keysym  uint32
	DeltaX        int    `json:"delta_x"`
	DeltaY        int    `json:"delta_y"`
	Finger        uint32 `json:"touch_id"`
}

func (g *signaling) handleControl(ctx context.Context, event string, b controlBody) error {
	v := g.viewing()
	if v == nil {
		if event == "control/request" {
			g.mu.Lock()
			g.wants = true // the viewer gets control when it has a connection
			g.mu.Unlock()
			return nil
		}
		return fmt.Errorf("%s: there is no connection yet", event)
	}
	switch event {
	case "control/request":
		return g.requestControl(ctx, v)
	case "control/take":
		return g.takeOver(ctx, v, b.Shared, b.Force)
	case "control/release":
		v.wants.Store(false)
		return g.s.d.ReleaseControl(v.ctx, v.actor)
	case "control/give":
		return g.give(v, b.ID)
	case "control/paste", "clipboard/set":
		if b.Text != nil {
			if err := g.setClipboard(v, *b.Text); err != nil {
				return err
			}
		}
		if event == "clipboard/set" {
			return nil
		}
	}
	events, err := inputMessage(event, b)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := v.input(e); err != nil {
			return err
		}
	}
	return nil
}

// takeOver gives the viewer control. If that fails, it sends the reason to the viewer and the
// request to the holder.
func (g *signaling) takeOver(ctx context.Context, v *viewer, shared, force bool) error {
	if v.options.ViewOnly {
		return errControl
	}
	take := g.s.d.TakeControl
	if shared {
		take = g.s.d.TakeSharedControl
	}
	if err := v.gain(func() error { return take(v.ctx, v.actor, force) }); err != nil {
		g.s.notifyHolder(v, err)
		return g.send(ctx, "control/refused", map[string]string{"message": err.Error()})
	}
	return nil
}

func (g *signaling) setClipboard(v *viewer, text string) error {
	if !v.controls() {
		return errControl
	}
	if len(text) > clipboardMost {
		return fmt.Errorf("a text of %d bytes for the clipboard; %d may be sent", len(text), clipboardMost)
	}
	return g.s.d.SetClipboard(v.ctx, desktop.Content{Type: desktop.TypeText, Data: []byte(text)}, desktop.Clipboard)
}

func (g *signaling) requestControl(ctx context.Context, v *viewer) error {
	if err := v.askControl(v.ctx); err != nil {
		return g.send(ctx, "control/refused", map[string]string{"message": err.Error()})
	}
	return nil
}

type sendFunc func(ctx context.Context, event string, payload any) error

// attach connects a viewer with its signalling connection and with its key.
func (v *viewer) attach(g *signaling) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.send, v.key = g.send, g.key
}

// ViewerActor returns the actor of a viewer for calls outside of this package, such as calls
// that act on windows. The key authenticates the viewer: only its client got it, as
// viewer_key in system/init. The second result is false if the viewer does not exist or can only
// watch.
func (s *Streamer) ViewerActor(key string) (desktop.Actor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.viewers {
		if v.key != "" && !v.options.ViewOnly && subtle.ConstantTimeCompare([]byte(v.key), []byte(key)) == 1 {
			return v.actor, true
		}
	}
	return desktop.Actor{}, false
}

func (s *Streamer) notifyHolder(v *viewer, refused error) {
	var held *desktop.ControlHeldError
	if !errors.As(refused, &held) || held.Holder.Kind != desktop.ActorViewer {
		return
	}
	holder := s.viewer(held.Holder.ID)
	if holder == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if send := holder.send; send != nil {
		// The holder's connection may be slow. Further requests are dropped meanwhile. The
		// goroutine that receives from the connection handles its errors.
		v.also(func() {
			if holder.asking.CompareAndSwap(false, true) {
				defer holder.asking.Store(false)
				_ = send(v.ctx, "control/request", map[string]string{"id": v.id})
			}
		})
	}
}

func (g *signaling) give(v *viewer, id string) error {
	to := g.s.viewer(id)
	switch {
	case to == nil:
		return ErrViewerNotFound
	case !v.controls(), to.options.ViewOnly:
		return errControl
	}
	return to.gain(func() error { return g.s.d.GiveControl(v.ctx, v.actor, to.actor) })
}

// gain calls grant, which may give the viewer control. If the viewer has ended, also meanwhile, the
// viewer does not keep control, and the error is ErrViewerNotFound.
func (v *viewer) gain(grant func() error) error {
	if v.ctx.Err() != nil {
		return ErrViewerNotFound
	}
	err := grant()
	if v.ctx.Err() != nil { // close may have released control before
		v.releaseControl()
		return ErrViewerNotFound
	}
	return err
}

// releaseControl ends the control of a viewer that has ended.
func (v *viewer) releaseControl() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := v.s.d.ReleaseControl(ctx, v.actor); err != nil {
		v.s.log.Debug("control of a viewer that left", "error", err)
	}
}

// partingTime bounds the release of a viewer's keys.
const partingTime = 5 * time.Second

// edits are the key combinations by which most programs edit.
var edits = map[string]string{
	"control/cut": "ctrl+x", "control/copy": "ctrl+c", "control/paste": "ctrl+v", "control/select_all": "ctrl+a",
}

var touches = map[string]byte{
	"control/touchbegin": opTouchBegin, "control/touchupdate": opTouchMove, "control/touchend": opTouchEnd,
}

// inputMessage returns the input of a message, for clients without a data channel and for
// input that the data channel cannot express.
func inputMessage(event string, b controlBody) ([]inputEvent, error) {
	one := func(e inputEvent, err error) ([]inputEvent, error) { return []inputEvent{e}, err }
	both := func(e inputEvent, err error, up inputKind) ([]inputEvent, error) {
		release := e
		release.kind = up
		return []inputEvent{e, release}, err
	}
	var at *desktop.Point
	if b.X != nil && b.Y != nil {
		at = &desktop.Point{X: *b.X, Y: *b.Y}
	}
	button := func(down bool) (inputEvent, error) {
		e, err := buttonEvent(down, b.Code)
		e.at = at
		return e, err
	}
	switch event {
	case "control/move", "control/touchbegin", "control/touchupdate", "control/touchend":
		switch {
		case at == nil:
			return nil, fmt.Errorf("%s: needs x and y", event)
		case event == "control/move":
			return one(inputEvent{kind: inputMove, at: at}, nil)
		}
		return one(touchEvent(touches[event], b.Finger, *at))
	case "control/scroll":
		return one(inputEvent{kind: inputScroll, dx: b.DeltaX, dy: b.DeltaY}, nil)
	case "control/buttondown":
		return one(button(true))
	case "control/buttonup":
		return one(button(false))
	case "control/buttonpress":
		e, err := button(true)
		return both(e, err, inputButtonUp)
	case "control/keydown":
		return one(keyEvent(true, b.Keysym))
	case "control/keyup":
		return one(keyEvent(false, b.Keysym))
	case "control/keypress":
		e, err := keyEvent(true, b.Keysym)
		return both(e, err, inputKeyUp)
	case "control/type":
		if b.Text == nil {
			return nil, fmt.Errorf("%s: needs text", event)
		}
		if len(*b.Text) > textMost {
			return nil, errLongText
		}
		return one(inputEvent{kind: inputType, text: *b.Text}, nil)
	case "control/cut", "control/copy", "control/paste", "control/select_all":
		return one(inputEvent{kind: inputPress, text: edits[event]}, nil)
	}
	return nil, errUnknownMessage
}
