// Package robot drives the desktop that somebody sits at, through robotgo.
//
// It is built with the tag robotgo only, and needs cgo; without the tag the
// package is empty. deskhand server --host-desktop uses it when it was built so,
// and desktop.Attach otherwise, which does more on X11.
//
// # Usage
//
//	d, err := robot.Start(ctx, robot.Config{})
//	defer d.Close()
//	pic, err := d.Screenshot(ctx, desktop.Shot{})
//
// A [Desktop] has the methods of desktop.Desktop that the HTTP API uses.
//
// # What it can do
//
// Screenshots of all displays, with regions, formats and scales of
// desktop.Desktop; the pointer, with left, middle and right button; keys and
// chords; typing of ASCII text; text on the clipboard. Everything else is
// desktop.ErrUnsupported and names the call: the HTTP API answers 501.
//
// Windows are left out: what robotgo has for them ends the program on X11 when a
// window is closed while it is asked about, and loses memory with each title.
//
// Several pictures are compared to number changes, since robotgo tells of none;
// so nothing is captured unless somebody asks, and waiting for the screen to
// settle takes pictures until two are the same.
//
// # Lifetime and concurrency
//
// robotgo keeps one connection to the display for the whole program: only one
// Desktop may be open at a time. Calls may come from any goroutine and are done
// one after the other. [Desktop.Close] lets go of what is held. On X11, Xlib
// ends the whole program when its display goes away. While a Desktop is open,
// errors of Xlib are ignored in the whole program.
//
// # Errors
//
// Those of desktop.Desktop, and [ErrNoDisplay], [ErrInUse].
//
// # Requirements
//
// On X11: DISPLAY, the headers of libX11 and libXtst to build (libx11-dev,
// libxtst-dev), and xclip or xsel for the clipboard. It was tried there alone.
// robotgo compiles on macOS and Windows too; the rest of this module does not,
// so nothing was tried on them. macOS would ask for the permissions
// Accessibility (input) and Screen Recording (pictures), in the settings under
// Privacy & Security; Windows asks for none, but input does not reach windows of
// programs that run as administrator unless this one does.
package robot
