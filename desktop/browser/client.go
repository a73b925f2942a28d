package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// Limits of a client.
const (
	// MaxClientMessage is the largest message that a client may send. Chromium's own
	// WebSockets have the same bound.
	MaxClientMessage = 100 << 20

	maxClients   = 32
	maxGuests    = 24        // clients of ServeGuest
	maxOfGuest   = 16        // of one guest
	maxUnsettled = 10_000    // commands without an answer
	maxQueue     = 64 << 20  // bytes that wait for a client, or one message
	maxQueues    = 128 << 20 // bytes that wait for all clients of a browser
	maxSessions  = 1000      // of one client
	maxContexts  = 1000      // browser contexts of one client; for more of them, the profile's folder for downloads is used
	attachLimit  = 10 * time.Second
	lastLimit    = 5 * time.Second
)

// Errors of clients.
var (
	ErrTooManyClients = errors.New("the browser has too many clients of the DevTools protocol")
	ErrNoTarget       = errors.New("the browser has no such target")

	errFlood     = errors.New("the client has sent too many commands, or reads too slowly")
	errLeft      = errors.New("the client has closed the browser")
	errSessionID = errors.New("the browser has given the client a session without id, or with the id of another session")
)

// Socket is the connection to a client of the DevTools protocol. The message that Receive returns
// is valid until its next call. Receive and Send return an error when the client has gone, and
// when Close is called.
type Socket interface {
	Receive() ([]byte, error)
	Send(text []byte) error
	Close()
}

// client is a client of the DevTools protocol. It has a session of its own at the browser, or
// at a page, and the sessions that it attaches from there. The browser keeps the state of
// sessions apart, such as which events they get.
type client struct {
	b      *clients
	guest  any // as for ServeGuest; nil: none
	socket Socket
	root   string // its first session; set by own
	actor  desktop.Actor

	acts     acts            // used by the goroutine that receives
	contexts map[string]bool // browser contexts that it made; guarded by tabs.mu
	attached int             // its sessions in clients.sessions; guarded by tabs.mu

	mu      sync.Mutex // guards the fields below
	pending int        // commands without an answer
	queue   [][]byte
	queued  int // bytes; see sizeOf
	wake    chan struct{}
	err     error       // why it ends
	last    *time.Timer // closes the socket while sendAll sends what is queued
}

// session is a session of a client.
type session struct {
	id     string
	client *client
	parent *session // it got the session; nil: the broker did
	target string
	below  map[*session]bool // that it got; guarded by tabs.mu
	page   bool              // the client gets the events of domain Page, and answers dialogs

	emulatesFocus bool // the client has had the page say that it has the focus; guarded by tabs.mu

	intercepts map[string]interception // by command, as the client wants it; guarded by tabs.mu
}

// ServeClient serves a client of the DevTools protocol until the client leaves, ctx ends or the
// browser ends. target is the id of a page or another target, or empty for the browser.
// ServeClient returns nil after the client's command Browser.close. Otherwise it returns the error
// of the socket, ErrNoTarget if there is no such target, ErrNoTab if the target is closed,
// ErrTooManyClients, ErrEnded, the error of ctx, or why it has disconnected the client.
//
// Clients do not see each other's sessions and events. Browser.close ends the client's
// connection, and not the browser. A client that does not read is disconnected. While another
// actor than the one of ctx has exclusive control, commands that act fail, and the client
// intercepts no file choosers and drags.
func (b *Browser) ServeClient(ctx context.Context, target string, socket Socket) error {
	return b.ServeGuest(ctx, nil, target, socket)
}

// ServeGuest is like ServeClient for a client of a guest, which any comparable value may stand for. It also
// returns ErrTooManyClients if the browser has 16 clients of the guest, or 24 clients of guests, so that
// others find a place. A nil guest is none.
func (b *Browser) ServeGuest(ctx context.Context, guest any, target string, socket Socket) error {
	c := &client{b: &b.clients, guest: guest, socket: socket, actor: desktop.ActorFrom(ctx), contexts: map[string]bool{}, wake: make(chan struct{}, 1)}
	if err := b.addClient(c); err != nil {
		return err
	}
	defer b.removeClient(c)
	if err := c.attach(ctx, target); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	b.work.Go(func() {
		select {
		case <-b.conn.done:
			c.end(ErrEnded)
		case <-ended:
		}
	})
	var sending sync.WaitGroup
	sending.Go(c.sendAll)
	c.receiveAll()
	sending.Wait()
	return c.reason()
}

// attach makes the client's session. If it fails, removeClient forgets the command.
func (c *client) attach(ctx context.Context, target string) error {
	method, params := "Target.attachToBrowserTarget", map[string]any{}
	if target != "" {
		method, params = "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}
	}
	ctx, cancel := context.WithTimeout(ctx, attachLimit)
	defer cancel()
	answers := make(chan error, 1)
	// The session must be known before its first event is read.
	_, err := c.b.conn.send(ctx, c, quote(c.b.broker), quote(method), encode(params), func(m message) {
		var result struct {
			SessionID string `json:"sessionId"`
		}
		switch {
		case m.fault != nil:
			answers <- fmt.Errorf("%w: %w", ErrNoTarget, faultOf(m.fault))
		default:
			err := m.decode(&result, maxAnswer)
			if err == nil && len(result.SessionID) > maxID {
				err = errLongID
			}
			if err != nil {
				answers <- err
				return
			}
			c.b.own(result.SessionID, &session{client: c, target: target})
			answers <- nil
		}
	})
	if err != nil {
		return err
	}
	select {
	case err = <-answers:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.b.conn.done:
		return ErrEnded
	}
}

// end ends the client. The first reason counts. A client that has closed the browser, or whose target
// is closed, gets what is queued within lastLimit.
func (c *client) end(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
	}
	if first && (errors.Is(err, errLeft) || errors.Is(err, errClosed)) {
		c.last = time.AfterFunc(lastLimit, c.socket.Close)
		first = false
	}
	c.mu.Unlock()
	c.notify()
	if first {
		c.socket.Close()
	}
}

func (c *client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.err, errLeft) {
		return nil
	}
	return c.err
}

func (c *client) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// queueEntry is what an entry of a queue takes in addition to its text.
const queueEntry = 64

// sizeOf returns what a message takes in a queue.
func sizeOf(text []byte) int { return cap(text) + queueEntry }

// put queues a message for the client. It never blocks.
func (c *client) put(text []byte) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	size := sizeOf(text)
	full := len(c.queue) > 0 && c.queued+size > maxQueue
	var all int64
	if !full {
		c.queue = append(c.queue, text)
		c.queued += size
		all = c.b.queued.Add(int64(size))
	}
	c.mu.Unlock()
	if full {
		c.end(errFlood)
		return
	}
	c.notify()
	if all > maxQueues {
		c.b.endSlowest()
	}
}

// endSlowest ends the client for which the most bytes wait.
func (b *clients) endSlowest() {
	b.mu.Lock()
	var slowest *client
	most := 0
	for c := range b.connected {
		c.mu.Lock()
		if c.err == nil && c.queued > most {
			slowest, most = c, c.queued
		}
		c.mu.Unlock()
	}
	b.mu.Unlock()
	if slowest != nil {
		slowest.end(errFlood)
	}
}

// sendAll sends what is queued until the client ends.
func (c *client) sendAll() {
	for {
		c.mu.Lock()
		queue, err := c.queue, c.err
		c.queue = nil
		c.mu.Unlock()
		for _, text := range queue {
			if err := c.socket.Send(text); err != nil {
				c.end(err)
				break
			}
			c.mu.Lock()
			c.queued -= sizeOf(text)
			c.b.queued.Add(-int64(sizeOf(text)))
			c.mu.Unlock()
		}
		if err != nil {
			if c.last == nil || c.last.Stop() {
				c.socket.Close()
			}
			return
		}
		if len(queue) == 0 {
			<-c.wake
		}
	}
}

// receiveAll passes on what the client sends, until it leaves.
func (c *client) receiveAll() {
	for {
		text, err := c.socket.Receive()
		if err == nil {
			err = c.handle(text)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// handle passes a command of the client on. The error ends the client.
func (c *client) handle(text []byte) error {
	m, err := parseMessage(text)
	// The browser would take what follows a NUL byte for the next message.
	if err != nil || bytes.IndexByte(text, 0) >= 0 || !json.Valid(text) || jsonlimit.CheckLimits(text, 250, 10_000_000) != nil {
		return errNotMessage
	}
	if _, ok := number(m.id); !ok {
		return errNotMessage
	}
	m.id = bytes.Clone(m.id)
	session := c.root
	if m.session != nil {
		session = plain(m.session)
	}
	s := c.b.sessionOf(session, c)
	if s == nil {
		c.fail(m, errNoSession)
		return nil
	}
	onResult, err := c.check(&m, s)
	switch {
	case errors.Is(err, errLeft):
		c.answer(message{id: m.id, result: []byte("{}"), session: bytes.Clone(m.session)})
		return err
	case err != nil:
		c.fail(m, err)
		return nil
	}
	if !c.begin() {
		return errFlood
	}
	id, back := m.id, bytes.Clone(m.session)
	_, err = c.b.conn.send(context.Background(), c, quote(session), m.method, m.params, func(m message) {
		if onResult != nil && m.result != nil {
			onResult(m.result)
		}
		m.id, m.session = id, back
		c.finish()
		c.answer(m)
	})
	return err
}

func (c *client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	return c.pending <= maxUnsettled
}

func (c *client) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
}

func (c *client) answer(m message) { c.put(m.encode()) }

func (c *client) fail(m message, err error) {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		f = &Fault{Code: -32000, Message: err.Error()}
	}
	c.answer(message{id: m.id, fault: encode(f), session: bytes.Clone(m.session)})
}

// event passes an event on to the client. session is the one that it came with.
func (c *client) event(m message, session string) {
	if session == c.root {
		m.session = nil
	}
	c.put(m.encode())
}

// forbidden are the commands that would end the browser for others, or open another way to it.
var forbidden = map[string]string{
	"Browser.crash":                 "it would end the browser of other clients",
	"Browser.crashGpuProcess":       "it would disturb other clients",
	"Input.setIgnoreInputEvents":    "the page would ignore people",
	"Page.waitForDebugger":          "the page would wait for ever, also after its client has left",
	"Target.setRemoteLocations":     "it connects the browser with other browsers",
	"Target.exposeDevToolsProtocol": "pages would control the browser",
	"Target.sendMessageToTarget":    "use sessions with flatten: true",
}

// check refuses a command of a client, or changes it. onResult gets the result of the
// command. errLeft means that the client leaves.
func (c *client) check(m *message, s *session) (onResult func(result []byte), err error) {
	method := plain(m.method)
	if method == "" {
		return nil, &Fault{Code: -32600, Message: "Message must have string 'method' property"}
	}
	if why, ok := forbidden[method]; ok {
		return nil, &Fault{Code: -32000, Message: method + " is not allowed here: " + why}
	}
	if intercepting[method] {
		return c.intercept(m, s), nil
	}
	if err := c.checkControl(method); err != nil {
		return nil, err
	}
	c.report(method, m.params)
	if name := refused[method]; name != "" && c.held() != nil {
		if m.params, err = with(m.params, name, false); err != nil {
			return nil, err
		}
	}
	switch method {
	case "Browser.close":
		return nil, errLeft
	case "Page.enable", "Page.disable":
		c.b.setPage(s, strings.HasSuffix(method, "enable"))
	case "Emulation.setFocusEmulationEnabled":
		c.b.setEmulatesFocus(s)
	case "Page.setDownloadBehavior":
		m.params = []byte(`{"behavior":"default"}`)
	case "Browser.setDownloadBehavior":
		m.params = c.downloads(m.params)
	case "Target.setAutoAttach", "Target.attachToTarget":
		m.params, err = with(m.params, "flatten", true) // other sessions can send nothing here
		return nil, err
	case "Target.createBrowserContext":
		return c.madeContext, nil
	case "Target.disposeBrowserContext":
		id := contextIn(m.params)
		m.params = encode(map[string]string{"browserContextId": id}) // the browser distinguishes upper and lower case
		if c.b.madeBy(id, func(other *client) bool { return other != c }) {
			return nil, &Fault{Code: -32000, Message: "this browser context belongs to another client"}
		}
		return func([]byte) { c.disposedContext(id) }, nil
	}
	return nil, nil
}

// contextIn returns the browser context that parameters or a result name.
func contextIn(text []byte) string {
	var v struct {
		BrowserContextID string `json:"browserContextId"`
	}
	_ = json.Unmarshal(text, &v)
	return v.BrowserContextID
}

func (c *client) madeContext(result []byte) {
	id := contextIn(result)
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if id != "" && len(id) <= maxID && len(c.contexts) < maxContexts {
		c.contexts[id] = true
	}
}

func (c *client) disposedContext(id string) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	delete(c.contexts, id)
}

// downloads returns the parameters of Browser.setDownloadBehavior that are passed on. The
// downloads of the profile go where the desktop's user expects them, whatever a client wants.
func (c *client) downloads(params []byte) []byte {
	var v struct {
		Behavior         string `json:"behavior"`
		BrowserContextID string `json:"browserContextId,omitempty"`
		DownloadPath     string `json:"downloadPath,omitempty"`
		EventsEnabled    bool   `json:"eventsEnabled"`
	}
	if json.Unmarshal(params, &v) != nil {
		return params // the browser refuses it
	}
	if !c.b.madeBy(v.BrowserContextID, func(*client) bool { return true }) {
		v.Behavior, v.BrowserContextID, v.DownloadPath = "default", "", ""
	}
	return encode(v)
}
