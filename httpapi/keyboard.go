package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type typeBody struct {
	Text    string  `json:"text"`
	DelayMS *uint32 `json:"delayMs,omitempty" doc:"Between characters; 10 when left out"`
	Secret  *bool   `json:"secret,omitempty" doc:"Keeps the text out of events and logs"`
}

// defaultDelay is the pause between typed characters.
const defaultDelay = 10 * time.Millisecond

func (b *typeBody) check() error {
	switch {
	case b.Text == "":
		return rest.InvalidArgument("text", "text must not be empty")
	case b.DelayMS != nil && *b.DelayMS > 60_000:
		return rest.InvalidArgument("delayMs", "delayMs must be at most 60000")
	}
	return nil
}

func (b *typeBody) typing() desktop.Type {
	t := desktop.Type{Text: b.Text, Delay: defaultDelay, Secret: b.Secret != nil && *b.Secret}
	if b.DelayMS != nil {
		t.Delay = time.Duration(*b.DelayMS) * time.Millisecond
	}
	return t
}

type keyModifiers struct {
	Ctrl  *bool `json:"ctrl,omitempty"`
	Shift *bool `json:"shift,omitempty"`
	Alt   *bool `json:"alt,omitempty"`
	Cmd   *bool `json:"cmd,omitempty" doc:"The Super (Windows, Command) key"`
}

func (m *keyModifiers) names() []string {
	if m == nil {
		return nil
	}
	var names []string
	for _, k := range []struct {
		held *bool
		name string
	}{{m.Ctrl, "ctrl"}, {m.Shift, "shift"}, {m.Alt, "alt"}, {m.Cmd, "super"}} {
		if k.held != nil && *k.held {
			names = append(names, k.name)
		}
	}
	return names
}

type pressBody struct {
	Key       string        `json:"key" doc:"A key or a chord, as ctrl+shift+t" example:"ctrl+l"`
	Modifiers *keyModifiers `json:"modifiers,omitempty"`
}

type keyBody struct {
	Key string `json:"key" doc:"The name of a key" example:"Shift_L"`
}

func checkKey(key string) error {
	if strings.TrimSpace(key) == "" {
		return rest.InvalidArgument("key", "key must not be empty")
	}
	return nil
}

const aboutTyping = "With the header Deskhand-Typing: secret, which is for keys that a person presses, events and recordings have their number alone."

func (s *Server) registerKeyboard() {
	r := rest.Route{Method: http.MethodPost, Tag: "Keyboard", Other: rest.InputFailed, Errors: []int{http.StatusBadGateway}}
	r.About = aboutTyping
	r.ID, r.Path, r.Summary = "typeText", "/keyboard/type", "Type a text"
	on(s, r, func(in *rest.Input[typeBody]) error { return in.Body.check() },
		func(ctx context.Context, d Desktop, in *rest.Input[typeBody]) (*rest.OKOutput, error) {
			return rest.OKOr(d.Type(ctx, in.Body.typing()))
		})
	r.ID, r.Path, r.Summary = "pressKey", "/keyboard/press", "Press and release a key or a chord"
	on(s, r, func(in *rest.Input[pressBody]) error { return checkKey(in.Body.Key) },
		func(ctx context.Context, d Desktop, in *rest.Input[pressBody]) (*rest.OKOutput, error) {
			return rest.OKOr(d.Press(ctx, desktop.Press{Keys: in.Body.Key, Modifiers: in.Body.Modifiers.names()}))
		})
	r.ID, r.Path, r.Summary = "holdKey", "/keyboard/down", "Press a key and hold it"
	on(s, r, func(in *rest.Input[keyBody]) error { return checkKey(in.Body.Key) },
		func(ctx context.Context, d Desktop, in *rest.Input[keyBody]) (*rest.OKOutput, error) {
			return rest.OKOr(d.KeyDown(ctx, in.Body.Key))
		})
	r.ID, r.Path, r.Summary = "releaseKey", "/keyboard/up", "Release a key"
	on(s, r, func(in *rest.Input[keyBody]) error { return checkKey(in.Body.Key) },
		func(ctx context.Context, d Desktop, in *rest.Input[keyBody]) (*rest.OKOutput, error) {
			return rest.OKOr(d.KeyUp(ctx, in.Body.Key))
		})
	r.About = ""
	r.ID, r.Path, r.Summary = "releaseInput", "/input/release", "Release all keys and buttons that are held"
	r.About = "Long typing that is under way or waits for its turn ends, and is answered with 409 and how far it came."
	on(s, r, nil, func(ctx context.Context, d Desktop, _ *struct{}) (*rest.OKOutput, error) {
		return rest.OKOr(d.ReleaseAll(ctx))
	})
}
