// Package network lets viewers reach this program. It opens the UDP port for media, accepts
// viewers at the TCP port of HTTP, uses TURN servers, and makes the list of addresses that each
// viewer tries.
//
// # Usage
//
// Open opens the ports. [Network.Link] makes the link of one viewer. [Link.Configure] sets
// up an ICE agent of Pion to use it, and [Link.Trickle] or [Link.Candidates] returns the
// addresses for the viewer. A [TCP] shares the port of an HTTP server.
//
// # Lifetime
//
// A Network is used until Close. Its links must be closed first.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// Link returns [ErrNoPort] if every port of a range is in use. Other errors are about the
// configuration or about sockets.
//
// # Requirements
//
// None.
package network
