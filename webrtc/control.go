package webrtc

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/deskhand/deskhand/desktop"
)

// errUnknownMessage does not contain the message: a faulty client may have put typed
// text there.
var errUnknownMessage = errors.New("unknown message")

// pointBody is a place on the screen, as the protocol's messages have it.
type pointBody struct {
	X *int `json:"x"`
	Y *int `json:"y"`
}

func (b pointBody) point() *desktop.Point {
	if b.X == nil || b.Y == nil {
		return nil
	}
	return &desktop.Point{X: *b.X, Y: *b.Y}
}

// takeControl does what a client asks for that is about control or input.
func (g *signaling) takeControl(ctx context.Context, event string, into func(any) error) error {
	v := g.viewing()
	if v == nil {
		if event == "control/request" {
			return g.askEarly(ctx)
		}
		return fmt.Errorf("%s: there is no connection yet", event)
	}
	switch event {
	case "control/request":
		return g.ask(ctx, v)
	case "control/take":
		var b struct{ Shared, Force bool }
		if err := into(&b); err != nil {
			return err
		}
		return g.takeOver(ctx, v, b.Shared, b.Force)
	case "control/release":
		v.wants.Store(false)
		return g.s.d.ReleaseControl(v.ctx, v.actor)
	case "control/give":
		var b struct{ ID string }
		if err := into(&b); err != nil {
			return err
		}
		return g.give(v, b.ID)
	case "control/paste":
		var b struct{ Text *string }
		if err := into(&b); err != nil {
			return err
		}
		if b.Text != nil {
			if err := g.setClipboard(v, *b.Text); err != nil {
				return err
			}
		}
	case "clipboard/set":
		var b struct{ Text string }
		if err := into(&b); err != nil {
			return err
		}
		return g.setClipboard(v, b.Text)
	}
	e, err := inputMessage(event, into)
	if err != nil {
		return err
	}
	for _, one := range e {
		if err := v.input(one); err != nil {
			return err
		}
	}
	return nil
}

// takeOver gives the viewer control. If it cannot, it tells the viewer and the holder why.
func (g *signaling) takeOver(ctx context.Context, v *viewer, shared, force bool) error {
	if v.options.ViewOnly {
		return errControl
	}
	take := g.s.d.TakeControl
	if shared {
		take = g.s.d.TakeSharedControl
	}
	if err := take(v.ctx, v.actor, force); err != nil {
		g.s.tellHolder(v, err)
		return g.send(ctx, "control/refused", map[string]string{"message": err.Error()})
	}
	return nil
}

// setClipboard puts a viewer's text on the clipboard.
func (g *signaling) setClipboard(v *viewer, text string) error {
	if !v.controls() {
		return errControl
	}
	if len(text) > clipboardMost {
		return fmt.Errorf("a text of %d bytes for the clipboard; %d may be sent", len(text), clipboardMost)
	}
	return g.s.d.SetClipboard(v.ctx, desktop.Content{Type: desktop.TypeText, Data: []byte(text)}, desktop.Clipboard)
}

// askEarly notes that a client that has no connection yet wants control: it gets
// it with the connection.
func (g *signaling) askEarly(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wants = true
	return nil
}

// ask grants control, or tells the client that it has to wait.
func (g *signaling) ask(ctx context.Context, v *viewer) error {
	if err := v.askControl(v.ctx); err != nil {
		return g.send(ctx, "control/refused", map[string]string{"message": err.Error()})
	}
	return nil
}

// tellFunc sends a message of the protocol to one viewer.
type tellFunc func(ctx context.Context, event string, payload any) error

// hear has the viewer of a client told, by its connection, of what only it has
// to know, and lets it act by other ways with its key.
func (v *viewer) hear(g *signaling) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.tell, v.key = g.send, g.key
}

// ViewerActor is who acts when a viewer calls other parts of a program than this
// one, such as those that act on windows. A client of the signalling protocol
// shows by its key, which it and nobody else got as viewer_key in system/init,
// that it is that viewer. The second result is false for keys of nobody, and of
// those who may only watch.
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

// tellHolder tells the viewer who keeps control that v would like to have it.
func (s *Streamer) tellHolder(v *viewer, refused error) {
	var held *desktop.ControlHeldError
	if !errors.As(refused, &held) || held.Holder.Kind != desktop.ActorViewer {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.viewers {
		if tell := o.tell; o.id == held.Holder.ID && tell != nil {
			// The holder's line may be slow, and its end is seen elsewhere.
			v.also(func() { _ = tell(v.ctx, "control/request", map[string]string{"id": v.id}) })
		}
	}
}

// give hands control to another viewer.
func (g *signaling) give(v *viewer, id string) error {
	g.s.mu.Lock()
	var to *viewer
	for _, o := range g.s.viewers {
		if o.id == id {
			to = o
		}
	}
	g.s.mu.Unlock()
	switch {
	case to == nil:
		return ErrViewerNotFound
	case !v.controls(), to.options.ViewOnly:
		return errControl
	}
	return g.s.d.GiveControl(v.ctx, v.actor, to.actor)
}

// edits are the chords by which most programs edit.
var edits = map[string]string{
	"control/cut": "ctrl+x", "control/copy": "ctrl+c", "control/paste": "ctrl+v", "control/select_all": "ctrl+a",
}

var touches = map[string]byte{
	"control/touchbegin": opTouchBegin, "control/touchupdate": opTouchMove, "control/touchend": opTouchEnd,
}

// inputMessage is the input that a message of the connection asks for: the way
// of clients that have no data channel, and of what does not fit into one.
func inputMessage(event string, into func(any) error) ([]inputEvent, error) {
	var b struct {
		pointBody
		Code   uint32 `json:"code"`
		Keysym uint32 `json:"keysym"`
		DeltaX int    `json:"delta_x"`
		DeltaY int    `json:"delta_y"`
		Text   string `json:"text"`
		Finger uint32 `json:"touch_id"`
	}
	if err := into(&b); err != nil {
		return nil, err
	}
	one := func(e inputEvent, err error) ([]inputEvent, error) { return []inputEvent{e}, err }
	both := func(down, up inputEvent, err error) ([]inputEvent, error) { return []inputEvent{down, up}, err }
	at := b.point()
	button := func(down bool) (inputEvent, error) {
		e, err := buttonEvent(down, b.Code)
		e.at = at
		return e, err
	}
	switch event {
	case "control/move":
		if at == nil {
			return nil, fmt.Errorf("%s: needs x and y", event)
		}
		return one(inputEvent{kind: inputMove, at: at}, nil)
	case "control/scroll":
		return one(inputEvent{kind: inputScroll, dx: b.DeltaX, dy: b.DeltaY}, nil)
	case "control/buttondown":
		return one(button(true))
	case "control/buttonup":
		return one(button(false))
	case "control/buttonpress":
		down, err := button(true)
		return both(down, inputEvent{kind: inputButtonUp, button: down.button, at: at}, err)
	case "control/keydown":
		return one(keyEvent(true, b.Keysym))
	case "control/keyup":
		return one(keyEvent(false, b.Keysym))
	case "control/keypress":
		down, err := keyEvent(true, b.Keysym)
		return both(down, inputEvent{kind: inputKeyUp, keysym: b.Keysym}, err)
	case "control/type":
		return one(inputEvent{kind: inputType, text: b.Text}, nil)
	case "control/cut", "control/copy", "control/paste", "control/select_all":
		return one(inputEvent{kind: inputPress, text: edits[event]}, nil)
	case "control/touchbegin", "control/touchupdate", "control/touchend":
		if at == nil {
			return nil, fmt.Errorf("%s: needs x and y", event)
		}
		return one(touchEvent(touches[event], b.Finger, *at))
	}
	return nil, errUnknownMessage
}
