package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// Config configures an API.
type Config struct {
	// Title, Version, Description and Tags are for the OpenAPI document.
	Title, Version, Description string
	Tags                        []*huma.Tag

	// PathParams are parameters of paths, by name, that the routes' inputs do not have.
	PathParams map[string]*huma.Param

	// Token is the server's own token, NoToken accepts requests without a token, and FindToken returns
	// the grant of any other token, or nil.
	Token     string
	NoToken   bool
	FindToken func(value string) *grants.Grant

	// Origins, Methods, Headers and Credentials say what pages of other sites may do.
	Origins, Methods, Headers []string
	Credentials               bool

	// TrustProxy believes the X-Forwarded headers.
	TrustProxy bool

	// Leaving reports whether each answer closes its connection, because the server ends soon:
	// clients then open the next one where a server takes it. Nil: no answer does.
	Leaving func() bool

	// MaxBodyBytes bounds bodies that are read into memory, unless their route has a
	// bound of its own. LargestBody is the largest of these bounds.
	MaxBodyBytes, LargestBody int64

	// MaxUploadBytes bounds bodies that are streamed. Zero: no bound.
	MaxUploadBytes int64

	// MaxConnections and MaxConnectionsPerAddress bound open connections. Zero: see
	// setConnectionLimits.
	MaxConnections, MaxConnectionsPerAddress int

	// Forward passes requests on to the server that a Problem names with At. Otherwise the
	// client gets the Problem.
	Forward bool

	// Quiet, if set, is called once no request has come for a while.
	Quiet func()

	// Observe, if set, is called at the end of each request, with the pattern of its path;
	// "" if no route has it.
	Observe func(method, route string, status int, took time.Duration)

	// Tracer, if set, makes a span of each request that needs a token and has one. SpanOf
	// returns the span in which the program works that a token was made for, if it is known.
	Tracer trace.Tracer
	SpanOf func(*grants.Grant) trace.SpanContext

	// Logger receives errors that clients are not shown and, with AccessLog, one line
	// per request.
	Logger    *slog.Logger
	AccessLog bool
}

// API is an HTTP API with its OpenAPI document: routes are added to it, and it answers
// requests. Its methods may be called from any goroutine once all routes are added.
type API struct {
	// patience is how long a client may neither send nor accept anything. early is when
	// a response begins whose answer takes longer, and beat the time between signs of
	// life in it.
	Patience, Early, Beat time.Duration

	// ReadTime and MessageTime are how long a client may take to send a request, and a
	// message of a WebSocket that it has begun.
	ReadTime, MessageTime time.Duration

	cfg      Config
	log      *slog.Logger
	Gate     gate
	limits   *connLimits
	refusals grants.Refusals
	app      *fiber.App
	Huma     huma.API
	Routes   []*huma.Operation // also those that the document leaves out
	answer   fasthttp.RequestHandler
	peers    *http.Client // for other servers
	handler  func() http.Handler

	Quiet   *time.Timer  // nil: Config has no Quiet function
	streams atomic.Int32 // event streams that are open
	mounted sockets      // WebSockets that came through Mount
	Bodies  *bodyMemory  // of requests
	Answers *bodyMemory
	Guests  chan struct{}  // has an element for each request in GuestPlaces
	packs   *placesByScope // has an element for each archive that is being sent or unpacked
	closing chan struct{}  // closed when Close begins
	Serving sync.WaitGroup // calls of Serve, and what Handler started

	mu       sync.Mutex // guards the fields below, and serving's Add against Close's Wait
	closed   bool
	localURL string            // at which programs on this machine reach the server; empty: none
	parting  []<-chan struct{} // each closed when the handlers of a Serve have ended
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("server is closed")

// New returns an API without routes.
func New(cfg Config) (*API, error) {
	if err := cfg.setConnectionLimits(); err != nil {
		return nil, err
	}
	if cfg.Leaving == nil {
		cfg.Leaving = func() bool { return false }
	}
	a := &API{
		Patience: slowClient, Early: earlyHeaders, Beat: whiteSpace,
		ReadTime: ReadTime, MessageTime: messageTime,
		cfg: cfg, log: cfg.Logger, limits: newConnLimits(cfg), Gate: newGate(cfg), closing: make(chan struct{}), Guests: make(chan struct{}, GuestPlaces),
		Bodies: newBodyMemory(cfg.LargestBody), Answers: newBodyMemory(cfg.LargestBody), packs: newPlacesByScope(guestPacks, otherPacks),
	}
	a.peers = newPeers()
	a.handler = sync.OnceValue(bridge{a}.newHandler)
	if cfg.Quiet != nil {
		a.Quiet = time.AfterFunc(quietTime, cfg.Quiet)
	}
	a.app = fiber.New(fiber.Config{
		Immutable:     true, // huma keeps strings beyond the request
		StrictRouting: true,
		CaseSensitive: true,
		ErrorHandler:  a.answerError,
	})
	a.app.Use(access{a}.enter, access{a}.guard)
	a.Huma = huma.NewAPI(documentConfig(cfg), &adapter{api: a, bodies: a.Bodies, answers: a.Answers, http: a.Handler})
	a.Huma.UseMiddleware(access{a}.authenticate, a.awaitPlace, a.checkQuery)
	return a, nil
}

// Finish completes the document. The API answers requests from then on.
func (a *API) Finish() {
	a.FinishDocument()
	a.dropAnswers()
	a.answer = a.known(a.app.Handler())
}
