// Package httpapi serves desktops over HTTP, in the wire format of sandbox-agent 0.4.2 and
// with what deskhand adds to it. Its OpenAPI 3.1 document is at /openapi.json, and is made
// from the Go types into which requests are decoded.
//
// # Usage
//
// New returns a [Server]. Serve answers on a listener, see the example. Handler returns an
// http.Handler for a program with routes of its own, and Mount adds the API to a fiber app.
// Streams and WebSockets work in all three.
//
// # Access
//
// Unless Config.NoToken is set, every /v1 route needs a bearer token, which New generates if
// Config.Token is empty. A request whose Origin is another site is refused, unless
// Config.Origins lists the site. Config.Roots says which files clients reach.
//
// # Lifetime
//
// Desktops that were started over HTTP end with Close, which waits for that. Serve returns
// after its context has ended and the calls that run have had a moment to complete. Event
// streams are ended.
//
// A state directory has one server at a time, from the first request that needs the directory
// to the end of Close. The next server waits for one that is closing. If another server uses
// the directory, such requests, Sweep and OpenAgents fail with [ErrInUse]. Listing desktops,
// reading a desktop's status, and reading tokens while there are none only look at the
// directory and do not create it. See Config.StateDir and Config.StateName.
//
// # Concurrency
//
// All methods may be called from any goroutine. The content of files and archives is passed
// on as a stream, in a few hundred kilobytes of memory for any size. A client may take any
// time for it, if some bytes move every half a minute.
//
// # Errors
//
// [ErrClosed] and [ErrInUse]. Clients get every error as application/problem+json, see
// [Problem]. One table maps the errors of a desktop's methods to statuses.
//
// # Requirements
//
// The requirements of the packages desktop, recording and agents, for the routes that use them.
package httpapi
