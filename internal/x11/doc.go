// Package x11 is a connection to an X server, for pictures, input, selections, windows and
// screen sizes.
//
// # Usage
//
// Dial returns a Conn. NewCapture takes pictures, NewInput sends input, NewClipboard reads and
// owns selections, NewWindows lists windows and acts on them, and SetSize changes the
// screen. Package quiesce waits until programs have handled input.
//
// # Lifetime
//
// A Conn lives until Close, or until the X server ends, which closes Done. Close waits for
// the goroutine that reads events.
//
// # Concurrency
//
// All methods may be called from any goroutine. Requests of concurrent calls may mix.
//
// # Errors
//
// ErrConnClosed after the end of the connection, the Err variables and error types, and the
// errors of xgb, which are wrapped.
//
// # Requirements
//
// An X server with XTEST, DAMAGE, XFIXES, RANDR and XKEYBOARD. MIT-SHM and X-Resource are
// optional.
package x11
