package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// OpenStreams returns the number of event streams that are open.
func (a *API) OpenStreams() int { return int(a.streams.Load()) }

// Idle reports whether no connection is open.
func (a *API) Idle() bool {
	a.limits.mu.Lock()
	defer a.limits.mu.Unlock()
	return len(a.limits.open) == 0 && len(a.limits.byAddress) == 0 && len(a.limits.refused) == 0
}

// OpenConnections returns the number of connections of clients to the listeners of Serve.
func OpenConnections(a *API) int {
	a.limits.mu.Lock()
	defer a.limits.mu.Unlock()
	return len(a.limits.open)
}

// Router returns the app that has the routes, for those that are not in the document.
func (a *API) Router() *fiber.App { return a.app }

// Done is closed when beginClose was called.
func (a *API) Done() <-chan struct{} { return a.closing }

// BeginClose ends streams and calls of serve.
func (a *API) BeginClose() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	close(a.closing)
}

// AwaitServing waits until serve and Handler have ended.
func (a *API) AwaitServing() {
	a.Serving.Wait()
	a.mounted.wait()
	a.peers.CloseIdleConnections()
	if a.Quiet != nil {
		a.Quiet.Stop()
	}
}

// Serve answers requests on ln until ctx ends or the API is closed. listen is ln, or what
// accepts its connections. It closes ln, ends the event streams, gives other calls two
// seconds to finish and returns nil. Its error says why ln could not be served.
func (a *API) Serve(ctx context.Context, ln net.Listener) error {
	if err := a.Begin(); err != nil {
		return err
	}
	defer a.Serving.Done()
	a.reachable(ln.Addr())
	e := &entry{loopback: loopback(ln.Addr()), Ending: make(chan struct{}), sockets: &sockets{limits: a.limits}}
	defer e.sockets.wait()
	srv := a.newFastHTTP(e)
	open := conns{limits: a.limits}
	srv.ConnState = open.track
	var refusals sync.WaitGroup
	defer func() { a.limits.closeRefused(); refusals.Wait() }()
	limited := &limitedListener{ln, a.limits, e.Ending, &refusals}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(limited) }()
	select {
	case err := <-failed:
		close(e.Ending)
		a.part(open.closeAll())
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	case <-a.closing:
	}
	if a.cfg.Leaving() {
		// New connections are refused, and a request that is on its way gets an answer.
		_ = ln.Close()
		time.Sleep(arrivalTime)
	}
	close(e.Ending)
	grace, cancel := context.WithTimeout(context.Background(), graceTime)
	defer cancel()
	_ = srv.ShutdownWithContext(grace) // its error is that the time was over
	a.part(open.closeAll())
	// If the end came before fasthttp had the listener, it is still open.
	_ = ln.Close()
	if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// ListenURL is where programs on this machine reach the server; empty: nowhere.
func (a *API) ListenURL() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.localURL
}

// reachable notes where the server listens. The first address counts.
func (a *API) reachable(at net.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	tcp, ok := at.(*net.TCPAddr)
	if !ok || a.localURL != "" {
		return
	}
	host := tcp.IP.String()
	switch {
	case tcp.IP == nil || tcp.IP.IsUnspecified() && tcp.IP.To4() != nil:
		host = "127.0.0.1"
	case tcp.IP.IsUnspecified():
		host = "localhost" // whichever of the two protocols it takes
	}
	a.localURL = "http://" + net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}

// part has Close wait a moment until none is closed.
func (a *API) part(none <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parting = append(slices.DeleteFunc(a.parting, isOver), none)
}

func isOver(none <-chan struct{}) bool {
	select {
	case <-none:
		return true
	default:
		return false
	}
}

// AwaitParting waits for handlers whose connections were closed.
func (a *API) AwaitParting() {
	a.mu.Lock()
	parting := a.parting
	a.mu.Unlock()
	limit := time.NewTimer(partTime)
	defer limit.Stop()
	for _, none := range parting {
		select {
		case <-none:
		case <-limit.C:
			return
		}
	}
}

// Begin counts one more use of the server that Close waits for.
func (a *API) Begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	a.Serving.Add(1)
	return nil
}

// Go runs f in a goroutine that Close waits for.
func (a *API) Go(f func()) error {
	if a.Begin() != nil {
		return Closing()
	}
	go func() {
		defer a.Serving.Done()
		f()
	}()
	return nil
}

const (
	// graceTime is what calls under way get to finish when Serve ends.
	graceTime = 2 * time.Second
	// arrivalTime is what requests that clients have just sent get to arrive, when a server ends
	// that was drained.
	arrivalTime = 300 * time.Millisecond
	// partTime is what they get to notice that their connections are closed, and
	// that what they waited for has ended.
	partTime = time.Second
	// ReadTime is the default of API.ReadTime.
	ReadTime = time.Minute
	idleTime = 2 * time.Minute
	// Prefetch is how much of a body is read before a handler runs.
	Prefetch = 64 << 10
	// HeaderSize is the largest size of a request's headers.
	HeaderSize = 16 << 10
)

func (a *API) newFastHTTP(e *entry) *fasthttp.Server {
	return &fasthttp.Server{
		Handler: func(rc *fasthttp.RequestCtx) {
			rc.SetUserValue(entryKey{}, e)
			a.answer(rc)
		},
		ErrorHandler:                 a.answerMalformed,
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		MaxRequestBodySize:           Prefetch,
		ReadBufferSize:               HeaderSize,
		ReadTimeout:                  a.ReadTime,
		IdleTimeout:                  idleTime,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
		Logger:                       discard{},
	}
}

// known answers requests whose method fiber does not know itself.
func (a *API) known(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(rc *fasthttp.RequestCtx) {
		if slices.Contains(fiber.DefaultMethods, string(rc.Method())) {
			next(rc)
			return
		}
		answerRaw(rc, methodUnknown.Problem("invalid request: no route has a method of that name"))
	}
}

// discard is for fasthttp's own messages: all that it says is also in answers
// or on the connection.
type discard struct{}

func (discard) Printf(string, ...any) {}

// entry is the way by which requests come in.
type entry struct {
	loopback bool          // only programs on this machine come this way
	proxied  bool          // it is the inside of Handler
	Ending   chan struct{} // closed when streams have to end
	sockets  *sockets      // those that came this way
}

type entryKey struct{}

// EntryOf is the way by which a request came.
func (a *API) EntryOf(rc *fasthttp.RequestCtx) *entry {
	if e, ok := rc.UserValue(entryKey{}).(*entry); ok {
		return e
	}
	return &entry{loopback: loopback(rc.LocalAddr()), Ending: a.closing, sockets: &a.mounted}
}

func loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return false // browsers cannot reach it
	default:
		return false
	}
}
