package desktops

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type typeBody struct {
	Text    string      `json:"text,omitempty" doc:"Required unless secret names a secret"`
	DelayMS *uint32     `json:"delayMs,omitempty" doc:"Milliseconds between characters, at most 10000; defaults to 10"`
	Mode    *string     `json:"mode,omitempty" enum:"auto,keys,paste" doc:"paste: by the clipboard, whose content is put back. auto, the default: by keys, but characters that the program cannot get from keys are pasted"`
	Secret  *secretText `json:"secret,omitempty"`
}

// TransformSchema makes text an argument of the command line, as it was when it was required.
func (typeBody) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["text"].Extensions = map[string]any{"x-argument": true}
	return s
}

// secretText is true for a text that is kept out of events and logs, or the name of a secret
// that is typed in place of a text.
type secretText struct {
	hide bool
	name string
}

// Schema describes it.
func (secretText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "true: keep the text out of events and logs. A string: the name of a secret to type instead of text",
		OneOf:       []*huma.Schema{{Type: huma.TypeBoolean}, {Type: huma.TypeString, MinLength: new(1)}},
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *secretText) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &s.hide) == nil {
		return nil
	}
	return json.Unmarshal(text, &s.name)
}

// defaultDelay is the pause between typed characters.
const defaultDelay = 10 * time.Millisecond

func (b *typeBody) typing() (desktop.Type, error) {
	delay := defaultDelay
	if b.DelayMS != nil {
		delay = time.Duration(*b.DelayMS) * time.Millisecond
	}
	secret := rest.Value(b.Secret)
	return desktop.Type{Text: b.Text, Delay: delay, Secret: secret.hide, SecretName: secret.name, Mode: desktop.TypeMode(rest.Value(b.Mode))}, check([]argument{
		{b.Text == "" && secret.name == "", "text", "text must not be empty"},
		{b.Text != "" && secret.name != "", "secret", "secret must not name a secret together with a text"},
		{delay > 10*time.Second, "delayMs", "delayMs must be at most 10000"},
	})
}

type keyModifiers struct {
	Ctrl  *bool `json:"ctrl,omitempty"`
	Shift *bool `json:"shift,omitempty"`
	Alt   *bool `json:"alt,omitempty"`
	Cmd   *bool `json:"cmd,omitempty" doc:"Super (Windows, Command) key"`
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
	Key       string        `json:"key" doc:"Key or chord, such as ctrl+shift+t" example:"ctrl+l"`
	Modifiers *keyModifiers `json:"modifiers,omitempty"`
}

func (b *pressBody) press() (desktop.Press, error) {
	return desktop.Press{Keys: b.Key, Modifiers: rest.Value(b.Modifiers).names()}, checkKey(b.Key)
}

type keyBody struct {
	Key string `json:"key" doc:"Name of a key" example:"Shift_L"`
}

func (b *keyBody) key() (string, error) { return b.Key, checkKey(b.Key) }

func checkKey(key string) error {
	return check([]argument{{strings.TrimSpace(key) == "", "key", "key must not be empty"}})
}

const aboutTyping = "With the header Deskhand-Typing: secret, which is for keys that a person presses, events and recordings contain only the number of keys."

func (a *Area) registerKeyboard() {
	r := rest.Route{Tag: "Keyboard", Other: inputFailed, Errors: []int{http.StatusBadGateway}, About: aboutTyping}
	key(a, r.Post("typeText", "/keyboard/type", "Type a text"), (*typeBody).typing, a.typeText)
	key(a, r.Post("pressKey", "/keyboard/press", "Press and release a key or a chord"), (*pressBody).press, computer.Keyboard.Press)
	key(a, r.Post("holdKey", "/keyboard/down", "Press a key and hold it"), (*keyBody).key, computer.Keyboard.KeyDown)
	key(a, r.Post("releaseKey", "/keyboard/up", "Release a key"), (*keyBody).key, computer.Keyboard.KeyUp)
	act(a, r.Post("releaseInput", "/input/release", "Release all held keys and buttons").
		WithAbout("Stops typing that is running or queued; its response is 409 with the number of typed characters."),
		func(ctx context.Context, in *target) (*rest.OKOutput, error) {
			d, err := running[interface{ ReleaseAll(context.Context) error }](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			return rest.OKOr(d.ReleaseAll(ctx))
		})
}

// typeText types a text. Only a client that may list secrets gets their names.
func (a *Area) typeText(k computer.Keyboard, ctx context.Context, t desktop.Type) error { //nolint:revive // the order of a method expression
	err := k.Type(ctx, t)
	if g := rest.GrantOf(ctx); errors.Is(err, desktop.ErrSecretNotFound) && (g == nil || g.Scope == grants.ScopeAdmin) {
		return desktopProblem(err).With("known", a.cfg.Secrets.Names())
	}
	return err
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
