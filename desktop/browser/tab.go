package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// ErrNoTab is returned if the browser has no tab with an id, or none at all.
var ErrNoTab = errors.New("the browser has no such tab")

var errClosed = fmt.Errorf("%w: it was closed", ErrNoTab)

const (
	// maxText bounds titles, URLs and messages of pages, in characters.
	maxText = 1024

	// maxTabs bounds the tabs that are followed.
	maxTabs = 500

	// maxID bounds the ids of tabs, sessions and the like, in bytes. What has a longer one is passed over.
	maxID = 128
)

// Tab is a tab of the browser, or a window that a page has opened. Its texts have at most
// 1024 characters.
type Tab struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Title  string `json:"title"`
	Active bool   `json:"active"` // the tab that methods use if none is named

	// Dialog is a dialog that is open.
	Dialog *Dialog `json:"dialog,omitempty"`
}

// tab is the state of a tab. tabs.mu guards it.
type tab struct {
	b       *tabs
	id      string // of its target
	info    targetInfo
	session string            // of this package
	frames  map[string]string // sessions of frames in other processes, by frame
	used    uint64            // when it was used last

	loader    string          // of the document
	lifecycle map[string]bool // what the document has reached
	dialog    *Dialog
	crash     chan struct{} // closed when the page crashes
	crashed   bool
	empty     bool   // see setStorages
	origin    origin // as the pointer has measured it
	console   ring[ConsoleMessage]
	network   ring[NetworkRequest]
	requests  map[string]*NetworkRequest // under way
}

// tabEvents handle the events of tabs, in the goroutine that reads. The handlers have mu.
var tabEvents = map[string]func(*tab, json.RawMessage){
	"Page.frameNavigated":          (*tab).frameNavigated,
	"Page.lifecycleEvent":          (*tab).lifecycleEvent,
	"Page.javascriptDialogOpening": (*tab).dialogOpening,
	"Page.javascriptDialogClosed":  (*tab).dialogClosed,
	"Fetch.requestPaused":          (*tab).requestPaused,
	"Runtime.consoleAPICalled":     (*tab).consoleCalled,
	"Runtime.exceptionThrown":      (*tab).exceptionThrown,
	"Network.requestWillBeSent":    (*tab).requestSent,
	"Network.responseReceived":     (*tab).responseReceived,
	"Network.loadingFinished":      (*tab).loadingFinished,
	"Network.loadingFailed":        (*tab).loadingFailed,
}

// browserEvents handle the events of the browser itself. The handlers have mu.
var browserEvents = map[string]func(*tabs, json.RawMessage){
	"Target.targetCreated":      (*tabs).targetChanged,
	"Target.targetInfoChanged":  (*tabs).targetChanged,
	"Target.targetDestroyed":    (*tabs).targetDestroyed,
	"Target.targetCrashed":      (*tabs).targetCrashed,
	"Target.attachedToTarget":   (*tabs).attachedToTarget,
	"Target.detachedFromTarget": (*tabs).detachedFromTarget,
	"Browser.downloadWillBegin": (*tabs).downloadWillBegin,
	"Browser.downloadProgress":  (*tabs).downloadProgress,
}

// onlyPages selects tabs from the browser's targets.
var onlyPages = []map[string]any{{"type": "page"}, {"exclude": true}}

// follow has the browser report its tabs.
func (b *tabs) follow(ctx context.Context) error {
	for method, params := range map[string]any{
		"Target.setDiscoverTargets":   map[string]any{"discover": true, "filter": onlyPages},
		"Browser.setDownloadBehavior": map[string]any{"behavior": "default", "eventsEnabled": true},
		"Target.setAutoAttach":        map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": onlyPages},
	} {
		if err := b.call(ctx, "", method, params, nil); err != nil {
			return err
		}
	}
	return b.await(ctx, func() bool { return len(b.all) > 0 && b.all[0].session != "" })
}

// route handles an event of the browser, or an answer that no call waits for, in the goroutine that
// reads.
func (b *clients) route(m message) {
	session := plain(m.session)
	if m.id != nil {
		b.lateAnswer(m, session)
		return
	}
	if session != "" && b.routeToClient(m, session) {
		return
	}
	b.mu.Lock()
	if session != "" && session == b.broker {
		b.mu.Unlock()
		b.routeToBroker(m)
		return
	}
	b.handle(m, session)
	ended := b.ended
	b.ended = nil
	b.mu.Unlock()
	for _, session := range ended {
		b.conn.sessionEnded(session)
	}
}

// handle handles an event that is not a client's. The caller has mu.
func (b *tabs) handle(m message, session string) {
	method := plain(m.method)
	if session == "" {
		if f := browserEvents[method]; f != nil {
			f(b, m.params)
			b.notify()
		}
		return
	}
	t := b.followed[session]
	if t == nil {
		return
	}
	switch f := tabEvents[method]; {
	case f != nil:
		f(t, m.params)
		b.notify()
	case method == "Target.attachedToTarget":
		t.attachedToFrame(m.params)
	case method == "Target.detachedFromTarget":
		t.detachedFromFrame(m.params)
	}
}

// unfollow forgets a session of this package that has ended. The caller has mu.
func (b *tabs) unfollow(session string) {
	if _, ok := b.followed[session]; ok {
		delete(b.followed, session)
		b.ended = append(b.ended, session)
	}
}

// notify wakes callers of await. The caller has mu.
func (b *tabs) notify() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// await waits until f returns true. f is called with mu.
func (b *tabs) await(ctx context.Context, f func() bool) error {
	for {
		b.mu.Lock()
		if f() {
			b.mu.Unlock()
			return nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-b.conn.done:
			return ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *tabs) targetChanged(params json.RawMessage) {
	var v attachment
	if json.Unmarshal(params, &v) != nil || v.TargetInfo.Type != "page" || len(v.TargetInfo.TargetID) > maxID {
		return
	}
	v.TargetInfo = v.TargetInfo.limited()
	if t := b.find(v.TargetInfo.TargetID); t != nil {
		t.info = v.TargetInfo
	} else if len(b.all) < maxTabs {
		b.all = append(b.all, &tab{
			b: b, id: v.TargetInfo.TargetID, info: v.TargetInfo, crash: make(chan struct{}),
			frames: map[string]string{}, lifecycle: map[string]bool{}, requests: map[string]*NetworkRequest{},
		})
	}
}

func (b *tabs) targetDestroyed(params json.RawMessage) {
	var v targetInfo
	if json.Unmarshal(params, &v) != nil {
		return
	}
	b.all = slices.DeleteFunc(b.all, func(t *tab) bool { return t.id == v.TargetID })
	for session, t := range b.followed {
		if t.id == v.TargetID {
			b.unfollow(session)
		}
	}
}

func (b *tabs) attachedToTarget(params json.RawMessage) {
	var v attachment
	if json.Unmarshal(params, &v) != nil || v.TargetInfo.Type != "page" || len(v.SessionID) > maxID {
		return
	}
	b.targetChanged(params)
	if t := b.find(v.TargetInfo.TargetID); t != nil {
		b.unfollow(t.session)
		t.session = v.SessionID
		b.followed[v.SessionID] = t
		b.watchSession(v.SessionID)
	}
}

// watchSession asks for the events of a page or a frame. The caller has mu, so it does not
// wait.
func (b *tabs) watchSession(session string) {
	frames := []map[string]any{{"type": "iframe"}, {"exclude": true}}
	type object = map[string]any
	for _, c := range []struct {
		method string
		params any
	}{
		{"Page.enable", object{}},
		{"Page.setLifecycleEventsEnabled", object{"enabled": true}},
		{"Runtime.enable", object{}},
		{"Network.enable", object{"maxTotalBufferSize": 1 << 20, "maxResourceBufferSize": 1 << 18, "maxPostDataSize": 0}},
		{"Target.setAutoAttach", object{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true, "filter": frames}},
		{"Runtime.runIfWaitingForDebugger", object{}}, // windows that pages open wait also without waitForDebuggerOnStart
	} {
		b.post(session, c.method, c.params)
	}
}

// maxOutbox bounds the commands of post that wait, in bytes. Those of all sessions of all clients, when
// control changes, have less than half of that.
const maxOutbox = 64 << 20

// outboxEntry is what an entry of the outbox takes in addition to its texts.
const outboxEntry = 128

// postedCommand is a command of post that waits.
type postedCommand struct {
	session, method string
	params          []byte
}

func (p postedCommand) send(c *conn) {
	_, _ = c.send(context.Background(), nil, quote(p.session), quote(p.method), p.params, nil)
}

var errNotRead = errors.New("the browser does not read what it is sent")

// post sends a command whose answer does not matter, without waiting for the pipe.
func (b *tabs) post(session, method string, params any) {
	p := postedCommand{session, method, encode(params)}
	b.outboxed += len(session) + len(p.params) + outboxEntry
	if b.outboxed > maxOutbox {
		b.outbox = nil
		b.conn.end(errNotRead)
		return
	}
	b.outbox = append(b.outbox, p)
	select {
	case b.posted <- struct{}{}:
	default:
	}
}

// sendPosts sends what post was called for, until the browser ends.
func (b *tabs) sendPosts() {
	for {
		b.mu.Lock()
		posts := b.outbox
		b.outbox, b.outboxed = nil, 0
		b.mu.Unlock()
		for _, p := range posts {
			p.send(b.conn)
		}
		select {
		case <-b.posted:
		case <-b.conn.done:
			return
		}
	}
}

func (b *tabs) detachedFromTarget(params json.RawMessage) {
	var v attachment
	if json.Unmarshal(params, &v) == nil {
		if t := b.followed[v.SessionID]; t != nil && t.session == v.SessionID {
			t.session = ""
		}
		b.unfollow(v.SessionID)
	}
}

func (t *tab) attachedToFrame(params json.RawMessage) {
	var v attachment
	if json.Unmarshal(params, &v) == nil && v.TargetInfo.Type == "iframe" && len(t.frames) < maxFrames &&
		len(v.TargetInfo.TargetID) <= maxID && len(v.SessionID) <= maxID {
		t.b.unfollow(t.frames[v.TargetInfo.TargetID])
		t.frames[v.TargetInfo.TargetID] = v.SessionID
		t.b.followed[v.SessionID] = t
		t.b.watchSession(v.SessionID)
	}
}

func (t *tab) detachedFromFrame(params json.RawMessage) {
	var v attachment
	if json.Unmarshal(params, &v) == nil && t.b.followed[v.SessionID] == t {
		t.b.unfollow(v.SessionID)
		maps.DeleteFunc(t.frames, func(_, session string) bool { return session == v.SessionID })
	}
}

// maxFrames bounds the frames of a tab that are looked at.
const maxFrames = 100

func (t *tab) frameNavigated(params json.RawMessage) {
	var v struct {
		Frame struct{ ID, ParentID, LoaderID, URL string }
		Type  string
	}
	if json.Unmarshal(params, &v) != nil || v.Frame.ParentID != "" || len(v.Frame.LoaderID) > maxID {
		return
	}
	if v.Frame.LoaderID != t.loader {
		t.loader = v.Frame.LoaderID
		clear(t.lifecycle)
	}
	if v.Type == "BackForwardCacheRestore" { // it was loaded before
		for _, name := range lifecycleNames {
			t.lifecycle[name] = true
		}
	}
	t.dialog, t.info.URL = nil, v.Frame.URL
	t.info = t.info.limited()
	if t.crashed {
		t.crash, t.crashed = make(chan struct{}), false
	}
	t.b.emit(desktop.BrowserEvent{Kind: desktop.BrowserNavigated, Tab: t.id, URL: t.info.shownURL})
}

func (t *tab) lifecycleEvent(params json.RawMessage) {
	var v struct{ FrameID, LoaderID, Name string }
	if json.Unmarshal(params, &v) != nil || v.FrameID != t.id || len(v.LoaderID) > maxID {
		return // the main frame has the id of its tab
	}
	if v.LoaderID != t.loader {
		t.loader = v.LoaderID
		clear(t.lifecycle)
	}
	for _, name := range lifecycleNames {
		if name == v.Name {
			t.lifecycle[name] = true
		}
	}
}

// emit emits an event, at most eventRate a second. The caller has mu, and has applied withoutSecrets
// to the event's URL.
func (b *tabs) emit(e desktop.BrowserEvent) {
	now := time.Now()
	if now.Sub(b.second) >= time.Second {
		b.second, b.emitted = now, 0
	}
	if b.emitted++; b.emitted <= eventRate {
		b.ext.Emit(desktop.Event{Type: desktop.EventBrowser, Browser: &e})
	}
}

// eventRate is how many events a second reach the desktop's: a page can navigate and open
// dialogs without end.
const eventRate = 20

// find returns the tab with an id, or nil. The caller has mu.
func (b *tabs) find(id string) *tab {
	if i := slices.IndexFunc(b.all, func(t *tab) bool { return t.id == id }); i >= 0 {
		return b.all[i]
	}
	return nil
}

// tab returns the tab with an id, or the active one if id is empty, and its session.
func (b *tabs) tab(ctx context.Context, id string) (*tab, string, error) {
	if id == "" {
		var err error
		if id, err = b.active(ctx); err != nil {
			return nil, "", err
		}
	}
	var t *tab
	ctx, cancel := context.WithTimeout(ctx, attachLimit)
	defer cancel()
	err := b.await(ctx, func() bool {
		t = b.find(id)
		return t == nil || t.session != ""
	})
	switch {
	case err != nil:
		return nil, "", err
	case t == nil:
		return nil, "", fmt.Errorf("%w: %s", ErrNoTab, id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uses++
	t.used = b.uses
	return t, t.session, nil
}

// Tabs returns the tabs, in the order in which they were opened.
func (b *Browser) Tabs(ctx context.Context) ([]Tab, error) {
	ctx, cancel := Milliseconds(0).limit(ctx, "list tabs", pageLimit)
	defer cancel()
	active, err := b.active(ctx)
	if err != nil && !errors.Is(err, ErrNoTab) {
		return nil, explain(ctx, err)
	}
	// The browser does not report a title that a script sets.
	var v struct{ TargetInfos []targetInfo }
	err = b.call(ctx, "", "Target.getTargets", map[string]any{"filter": onlyPages}, &v)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return nil, explain(ctx, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, info := range v.TargetInfos {
		if t := b.find(info.TargetID); t != nil {
			t.info = info.limited()
		}
	}
	tabs := []Tab{}
	for _, t := range b.all {
		tabs = append(tabs, t.describe(active))
	}
	return tabs, nil
}

// describe returns the tab as callers see it. The caller has mu.
func (t *tab) describe(active string) Tab {
	d := Tab{ID: t.id, URL: t.info.URL, Title: t.info.Title, Active: t.id == active}
	if t.dialog != nil {
		dialog := *t.dialog
		d.Dialog = &dialog
	}
	return d
}

// act is perform for an action with a command and a target.
func (b *process) act(ctx context.Context, command, target string, f func(context.Context) error) error {
	return b.perform(ctx, desktop.Action{Command: command, Target: target}, f)
}

// perform asks control and the policy, and runs f as an input.
func (b *process) perform(ctx context.Context, a desktop.Action, f func(context.Context) error) error {
	a.Name, a.Target = desktop.ActionBrowser, limited(a.Target)
	if err := b.ext.Act(ctx, a, 0, f); err != nil {
		return fmt.Errorf("browser: %w", err)
	}
	return nil
}
