package desktop

import (
	"cmp"
	"context"
	"os"
	"time"
)

// Extension lets another package, such as package browser, add input of its own to a desktop.
// Like all input, it waits for its turn, is subject to control and to Config.Policy, and is
// emitted as an event.
type Extension struct{ desk *Desktop }

// Extend returns the Extension of a desktop.
func Extend(d *Desktop) Extension { return Extension{d} }

// Act waits for the turn of an input, runs f, emits the action, and returns the error of f. It
// returns a *ControlHeldError, or the error of Config.Policy, without a call of f. f must return
// when its context ends, which is after limit, or after 10 s if limit is 0. Act then returns a
// *DeadlineError.
func (e Extension) Act(ctx context.Context, a Action, limit time.Duration, f func(context.Context) error) error {
	op := cmp.Or(a.Command, a.Name.words())
	return e.desk.act(ctx, op, cmp.Or(limit, inputLimit), &a, func(ctx context.Context, _ *session) error { return f(ctx) })
}

// UID returns the user of the desktop's programs.
func (e Extension) UID() int {
	if c := e.desk.user.Credential; c != nil {
		return int(c.Uid)
	}
	return os.Geteuid()
}

// AsUser calls f with the rights of the desktop's user to files. f must do its work in the
// goroutine that calls it and start no process.
func (e Extension) AsUser(f func() error) error { return e.desk.user.Do(f) }

// Secret returns the value of a secret of Config.SecretValue.
func (e Extension) Secret(name string) (value string, ok bool) {
	if e.desk.cfg.SecretValue == nil {
		return "", false
	}
	return e.desk.cfg.SecretValue(name)
}

// Emit adds an event to the events of the desktop.
func (e Extension) Emit(event Event) { e.desk.events.Emit(event) }

// BrowserEventKind is what happened in a browser.
type BrowserEventKind string

// The kinds of BrowserEvent, and which fields they set in addition to Tab and URL.
const (
	BrowserNavigated BrowserEventKind = "navigated" // Title, if it is known
	BrowserDialog    BrowserEventKind = "dialog"    // Dialog, Message, State: "open", "accepted" or "dismissed"
	BrowserDownload  BrowserEventKind = "download"  // Path, Size, State: "started", "completed" or "canceled"
	BrowserStarted   BrowserEventKind = "started"
	BrowserEnded     BrowserEventKind = "ended" // Message: why, unless it was stopped
)

// BrowserEvent is something that happened in the browser of a desktop. Texts of pages are
// cut to 1024 characters.
type BrowserEvent struct {
	Kind    BrowserEventKind `json:"kind"`
	Tab     string           `json:"tab,omitempty"`
	URL     string           `json:"url,omitempty"`
	Title   string           `json:"title,omitempty"`
	Dialog  string           `json:"dialog,omitempty"` // "alert", "confirm", "prompt" or "beforeunload"
	Message string           `json:"message,omitempty"`
	State   string           `json:"state,omitempty"`
	Path    string           `json:"path,omitempty"`
	Size    int64            `json:"size,omitempty"` // bytes
}
