//go:build robotgo

package robot

/*
#cgo LDFLAGS: -lX11
#include <X11/Xlib.h>

static int ignore_error(Display *d, XErrorEvent *e) { return 0; }
static void ignore_errors(void) { XSetErrorHandler(ignore_error); }

static int reachable(void) {
	Display *d = XOpenDisplay(NULL);
	return d != NULL && XCloseDisplay(d) == 0;
}
*/
import "C"

import "os"

// reachable tells whether there is a display. robotgo would end the program, or
// take :0 in its place.
func reachable() bool { return os.Getenv("DISPLAY") != "" && C.reachable() != 0 }

// ignoreErrors keeps Xlib from ending the program for an X error, as when the
// screen gets smaller while a picture of it is taken.
func ignoreErrors() { C.ignore_errors() }
