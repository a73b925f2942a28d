package rest

import (
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
)

// Decoded bodies and answers that are being made take memory that bodyMemory does not
// count. The number of requests that are handled at the same time bounds it. Event
// streams and WebSockets do not count: their handlers have returned.
const (
	GuestPlaces = 256 // requests with a token of a scope other than admin
	largePlaces = 2   // requests of a route whose answers may be large, of such tokens and of all others each
	guestPacks  = 8   // archives that are being sent or unpacked for such tokens
	otherPacks  = 64  // archives that are being sent or unpacked for all others
)

// largeKey is the key of the places of a route's large answers in the metadata of its operation.
const largeKey = "large"

// placesByScope are places for tokens of a scope other than admin, and places for all others.
type placesByScope struct{ guests, others chan struct{} }

func newPlacesByScope(guests, others int) *placesByScope {
	return &placesByScope{make(chan struct{}, guests), make(chan struct{}, others)}
}

// of returns the places for a request.
func (p *placesByScope) of(r *Request) chan struct{} {
	if r.Limited() {
		return p.guests
	}
	return p.others
}

// enter takes one of the places until leave is called. It returns a Problem with the text full if
// none is free.
func enter(places chan struct{}, full string) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	default:
		return nil, Unavailable.Problem(full+"; try again later").WithHeader(fiber.HeaderRetryAfter, "5")
	}
}

// SharedPlaces are places for what tokens of a scope other than admin do at the same time. One
// token gets half of them.
type SharedPlaces struct {
	all int

	mu    sync.Mutex // guards taken
	taken []string   // ids of tokens
}

// NewSharedPlaces returns a number of places.
func NewSharedPlaces(all int) *SharedPlaces { return &SharedPlaces{all: all} }

// Enter takes a place until leave is called. It returns a problem with the text full if the
// request's token gets none. Requests of the server's own token and of admin tokens need none.
func (p *SharedPlaces) Enter(r *Request, full string) (leave func(), bad *Problem) {
	if !r.Limited() {
		return func() {}, nil
	}
	id := r.Grant.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	own := 0
	for _, other := range p.taken {
		if other == id {
			own++
		}
	}
	if own >= p.all/2 || len(p.taken) >= p.all {
		return nil, Unavailable.Problem(full+"; try again later").WithHeader(fiber.HeaderRetryAfter, "5")
	}
	p.taken = append(p.taken, id)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.taken, id)
		p.taken = slices.Delete(p.taken, i, i+1)
	}), nil
}

// awaitPlace is the middleware that has a request wait for its places. The adapter gives
// them back when the answer counts among the answers that wait for their clients.
func (a *API) awaitPlace(ctx huma.Context, next func(huma.Context)) {
	r := RequestOf(ctx)
	large, _ := r.op.Metadata[largeKey].(*placesByScope)
	var places []chan struct{}
	if r.Limited() {
		places = append(places, r.Grant.Places(), a.Guests)
	}
	if large != nil && r.Limited() {
		places = append(places, r.Grant.Large())
	}
	if large != nil {
		places = append(places, large.of(r))
	}
	for _, place := range places {
		if !r.acquire(place) {
			bad := Unavailable.Problem("too many requests are being handled; try again later").WithHeader(fiber.HeaderRetryAfter, "1")
			if r.Grant.Over() {
				bad = TokenOver()
			}
			a.Write(r.Fiber, bad)
			return
		}
	}
	next(ctx)
}

// acquire waits for a place. It returns false if the client disconnects first.
func (r *Request) acquire(place chan struct{}) bool {
	select {
	case place <- struct{}{}:
	default:
		ctx, stop := UntilGone(r.ctx, r.Fiber)
		defer stop()
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	r.places = append(r.places, place)
	return true
}

// giveBack gives back what take has taken.
func (r *Request) giveBack() {
	for _, place := range r.places {
		<-place
	}
}
