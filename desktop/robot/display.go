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

// reachable reports whether there is a display. Without one, robotgo ends the program or
// uses :0.
func reachable() bool { return os.Getenv("DISPLAY") != "" && C.reachable() != 0 }

// ignoreErrors keeps Xlib from ending the program after an X error, for example if the
// screen gets smaller during a capture.
func ignoreErrors() { C.ignore_errors() }
