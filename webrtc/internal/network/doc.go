// Package network lets viewers reach this program: it opens the UDP port for media, takes
// in viewers at the TCP port of HTTP, uses TURN servers, and tells each viewer which
// addresses to try.
//
// # Usage
//
// Open opens the ports. [Network.Link] makes the link of one viewer. [Link.Configure] sets
// up an ICE agent of Pion to use it, and [Link.Trickle] or [Link.Candidates] returns the
// addresses to tell the viewer. A [TCP] shares the port of an HTTP server.
//
// # Lifetime
//
// A Network lives until Close. Links must be closed before it.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// [ErrNoPort] if every port of a range is in use. Other errors are about the configuration
// or about sockets.
//
// # Requirements
//
// None.
package network
