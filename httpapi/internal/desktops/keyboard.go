package desktops

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/computer"
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

func (b *typeBody) typing() (desktop.Type, error) {
	delay := defaultDelay
	if b.DelayMS != nil {
		delay = time.Duration(*b.DelayMS) * time.Millisecond
	}
	return desktop.Type{Text: b.Text, Delay: delay, Secret: rest.Value(b.Secret)}, check([]argument{
		{b.Text == "", "text", "text must not be empty"},
		{delay > time.Minute, "delayMs", "delayMs must be at most 60000"},
	})
}

type keyModifiers struct {
	Ctrl  *bool `json:"ctrl,omitempty"`
	Shift *bool `json:"shift,omitempty"`
	Alt   *bool `json:"alt,omitempty"`
	Cmd   *bool `json:"cmd,omitempty" doc:"The Super (Windows, Command) key"`
}

func (m keyModifiers) names() (names []string) {
	for _, k := range []struct {
		held *bool
		name string
	}{{m.Ctrl, "ctrl"}, {m.Shift, "shift"}, {m.Alt, "alt"}, {m.Cmd, "super"}} {
		if rest.Value(k.held) {
			names = append(names, k.name)
		}
	}
	return names
}

type pressBody struct {
	Key       string        `json:"key" doc:"A key or a chord, as ctrl+shift+t" example:"ctrl+l"`
	Modifiers *keyModifiers `json:"modifiers,omitempty"`
}

func (b *pressBody) press() (desktop.Press, error) {
	return desktop.Press{Keys: b.Key, Modifiers: rest.Value(b.Modifiers).names()}, checkKey(b.Key)
}

type keyBody struct {
	Key string `json:"key" doc:"The name of a key" example:"Shift_L"`
}

func (b *keyBody) key() (string, error) { return b.Key, checkKey(b.Key) }

func checkKey(key string) error {
	return check([]argument{{strings.TrimSpace(key) == "", "key", "key must not be empty"}})
}

const aboutTyping = "With the header Deskhand-Typing: secret, which is for keys that a person presses, events and recordings have their number alone."

func (a *Area) registerKeyboard() {
	r := rest.Route{Tag: "Keyboard", Other: inputFailed, Errors: []int{http.StatusBadGateway}, About: aboutTyping}
	key(a, r.Post("typeText", "/keyboard/type", "Type a text"), (*typeBody).typing, computer.Keyboard.Type)
	key(a, r.Post("pressKey", "/keyboard/press", "Press and release a key or a chord"), (*pressBody).press, computer.Keyboard.Press)
	key(a, r.Post("holdKey", "/keyboard/down", "Press a key and hold it"), (*keyBody).key, computer.Keyboard.KeyDown)
	key(a, r.Post("releaseKey", "/keyboard/up", "Release a key"), (*keyBody).key, computer.Keyboard.KeyUp)
	act(a, r.Post("releaseInput", "/input/release", "Release all keys and buttons that are held").
		WithAbout("Long typing that is under way or waits for its turn ends, and is answered with 409 and how far it came."),
		func(ctx context.Context, in *target) (*rest.OKOutput, error) {
			d, err := running[interface{ ReleaseAll(context.Context) error }](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			return rest.OKOr(d.ReleaseAll(ctx))
		})
}

// key adds a route whose body decode makes an action of the keyboard, which do performs.
func key[B, A any](a *Area, r rest.Route, decode func(*B) (A, error), do func(computer.Keyboard, context.Context, A) error) {
	act(a, r, func(ctx context.Context, in *input[B]) (*rest.OKOutput, error) {
		action, bad := decode(&in.Body)
		d, err := running[computer.Keyboard](a, in.Desktop, bad)
		if err != nil {
			return nil, err
		}
		return rest.OKOr(do(d, ctx, action))
	})
}
