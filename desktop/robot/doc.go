// Package robot drives the desktop of its user's session through robotgo.
//
// The package needs cgo and the build tag robotgo. Without the tag it is empty.
// deskhand server --host-desktop uses it if the tag was set, and desktop.Attach
// otherwise, which can do more on X11.
//
// # Usage
//
// Start returns a [Desktop], which has the methods of desktop.Desktop that the HTTP
// API uses. The example moves the pointer and takes a screenshot.
//
// These methods work:
//
//   - Screenshots of all displays, with the regions, formats and scales of
//     desktop.Desktop. Two pictures are compared to find out whether the screen has
//     changed, because robotgo does not report changes.
//   - The pointer, with its left, middle and right button.
//   - Keys, chords, and ASCII text.
//   - Text on the clipboard.
//
// All other methods return desktop.ErrUnsupported with the name of the method, for
// which the HTTP API answers 501. There are no windows: robotgo's functions for them
// end the program on X11 if a window is closed during the call, and leak memory with
// each title.
//
// # Lifetime
//
// Start opens the display, and [Desktop.Close] releases held keys and buttons and
// closes it. A program can have one open Desktop, because robotgo has one connection
// to the display. On X11, Xlib ends the program when the display ends. While a
// Desktop is open, other errors of Xlib are ignored in the whole program.
//
// # Concurrency
//
// All methods may be called from any goroutine. They run one after the other. There are no
// turns of several inputs: other callers' input may come between the actions of package
// batch, and Batch.Expect can only be empty or ExpectAny.
//
// # Errors
//
// [ErrNoDisplay] and [ErrInUse], and the errors of desktop.Desktop.
//
// # Requirements
//
// On X11: DISPLAY, the headers of libX11 and libXtst to build (libx11-dev and
// libxtst-dev), and xclip or xsel for the clipboard. robotgo compiles on macOS and
// Windows too, but this module does not.
package robot
