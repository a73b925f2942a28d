// Package httpapi serves desktops over HTTP, in the wire format of
// sandbox-agent 0.4.2 and with what deskhand adds to it. Its OpenAPI 3.1
// document, made from the Go types that requests are decoded into, is at
// /openapi.json.
//
// # Usage
//
// New makes a Server. Serve answers on a listener; Mount puts the API into a
// fiber app; Handler makes it an http.Handler. Streams pass in all three. See
// the example of New.
//
// # Files
//
// What is read, written, packed and unpacked passes through as a stream, of any
// size, in a few hundred kilobytes of memory. A client may take any time for it,
// as long as something moves every half a minute. Config.Roots says which files
// clients reach.
//
// # Access
//
// Without further configuration every /v1 route needs a bearer token, which New
// generates when it is given none. A request whose Origin is another site is
// refused, unless Config.Origins lists it.
//
// # Lifetime
//
// The desktops that were started over HTTP belong to the Server and end with
// Close, which waits for that. Serve returns when its context ends, after the
// calls under way have had a moment to finish; event streams are ended.
//
// A state directory has one server at a time, from the first request that needs
// it until the end of Close. The next one waits for a server that is closing;
// where it is in use otherwise, such requests, Sweep and OpenAgents fail with
// [ErrInUse]. The list of desktops and a desktop's status are had by looking
// alone, which makes no directory and leaves it to whoever wants it, and so are
// tokens while none was made. See Config.StateDir and Config.StateName.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// Clients get every error as application/problem+json, see Problem. Those of a
// desktop's methods are mapped to statuses in one table.
package httpapi
