package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// commands are the methods that Do calls, by the names that clients use.
var commands = map[string]func(ctx context.Context, b *Browser, args []byte) (any, error){
	"tabs":     command(func(b *Browser, ctx context.Context, _ struct{}) ([]Tab, error) { return b.Tabs(ctx) }),
	"newTab":   command(func(b *Browser, ctx context.Context, n Navigate) (Tab, error) { return b.NewTab(ctx, n.URL) }),
	"activate": command(func(b *Browser, ctx context.Context, q TabQuery) (any, error) { return nil, b.ActivateTab(ctx, q.Tab) }),
	"closeTab": command(func(b *Browser, ctx context.Context, q TabQuery) (any, error) { return nil, b.CloseTab(ctx, q.Tab) }),
	"navigate": command((*Browser).Navigate),
	"back":     command((*Browser).Back),
	"forward":  command((*Browser).Forward),
	"reload":   command((*Browser).Reload),
	"wait":     command((*Browser).Wait),
	"outline": command(func(b *Browser, ctx context.Context, q OutlineQuery) (any, error) {
		o, err := b.Outline(ctx, q)
		return OutlineText{Outline: o.Text(), Truncated: o.Truncated, Tab: o.Tab, URL: o.URL, Title: o.Title}, err
	}),
	"click":    command((*Browser).Click),
	"fill":     command(func(b *Browser, ctx context.Context, f Fill) (any, error) { return nil, b.Fill(ctx, f) }),
	"select":   command((*Browser).Select),
	"press":    command(func(b *Browser, ctx context.Context, p Press) (any, error) { return nil, b.Press(ctx, p) }),
	"upload":   command(func(b *Browser, ctx context.Context, u Upload) (any, error) { return nil, b.Upload(ctx, u) }),
	"evaluate": command((*Browser).Evaluate),
	"text":     command((*Browser).Text),
	"console":  command((*Browser).Console),
	"network":  command((*Browser).Network),
	"dialog": command(func(b *Browser, ctx context.Context, a DialogAnswer) (any, error) {
		return nil, b.AnswerDialog(ctx, a.Tab, a.Accept, a.Text)
	}),
}

// OutlineText is an outline as text.
type OutlineText struct {
	Tab       string `json:"tab"`
	URL       string `json:"url"`
	Title     string `json:"title"`
	Outline   string `json:"outline"`
	Truncated bool   `json:"truncated"`
}

// DialogAnswer is the answer to a dialog.
type DialogAnswer struct {
	Tab    string `json:"tab,omitempty"` // empty: the active one
	Accept bool   `json:"accept"`
	Text   string `json:"text,omitempty"` // for a prompt
}

func command[A, R any](f func(*Browser, context.Context, A) (R, error)) func(context.Context, *Browser, []byte) (any, error) {
	return func(ctx context.Context, b *Browser, args []byte) (any, error) {
		var a A
		if len(args) > 0 {
			d := json.NewDecoder(bytes.NewReader(args))
			d.DisallowUnknownFields()
			if err := d.Decode(&a); err != nil {
				if bad, ok := errors.AsType[*InvalidError](err); ok {
					return nil, bad
				}
				return nil, &InvalidError{"Args", "must be an object with the arguments of the command: " + err.Error()}
			}
		}
		return f(b, ctx, a)
	}
}

// Commands returns the names of the commands that Do accepts, sorted.
func Commands() []string { return slices.Sorted(maps.Keys(commands)) }

// Do calls a method by the name of its command, such as "navigate". args is a JSON object of the
// method's arguments, or nil. Do returns the method's result as JSON, or nil if it has none, and
// its error. An unknown command or argument is an *InvalidError.
func (b *Browser) Do(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	f, ok := commands[name]
	if !ok {
		return nil, &InvalidError{"Do", fmt.Sprintf("must be one of %s, not %q", strings.Join(Commands(), ", "), name)}
	}
	result, err := f(ctx, b, args)
	if err != nil || result == nil {
		return nil, err
	}
	return plainjson.Marshal(result)
}
