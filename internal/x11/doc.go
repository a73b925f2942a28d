// Package x11 is the connection to an X server: pictures, damage, input,
// selections, windows and screen sizes, in deskhand's own types.
//
// # Usage
//
// Dial connects. The files are by topic: conn (connection, events, atoms),
// auth (cookies), capture, damage, cursor, screen (sizes), keysym and keymap
// and typing (keyboard), pointer, selection (clipboard), window. What waits until
// programs have dealt with input is package quiesce.
//
// # Lifetime
//
// A Conn lives until Close, or until the X server goes away; Done tells. It
// owns a goroutine that reads events, which Close waits for.
//
// # Concurrency
//
// Every method may be called from any goroutine. Requests of one call are not
// kept apart from the requests of another: a caller that needs that locks.
//
// # Errors
//
// ErrConnClosed once the connection is gone, and the errors that each topic
// declares. What the X server refuses is wrapped as xgb gives it.
//
// # Requirements
//
// An X server with XTEST, DAMAGE, XFIXES and RANDR. MIT-SHM is used when
// client and server share memory.
package x11
