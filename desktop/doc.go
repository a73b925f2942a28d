// Package desktop runs an X desktop (Xvfb, openbox, D-Bus), reports what is on it, and acts
// on it: screenshots, pointer, keyboard, windows, clipboard and programs. A program can run
// many desktops.
//
// # Usage
//
// Start runs a desktop. Launch starts a program on it, Screenshot takes a picture, and Click,
// Type, Press and Scroll send input. See the example. Attach uses a desktop that runs already.
// Listen returns the sound of the programs, from a PulseAudio of the desktop's own.
//
// A Screenshot is an Observation. A pointer action with its ID takes coordinates in the
// picture, whatever its scale or region. A point beyond the right or bottom edge of the screen
// means the edge. A negative point, and a point outside the picture, are an *InvalidError.
// Pointer actions return the position of the pointer after the action.
//
// # Lifetime
//
// A Desktop lives until Close, which releases held keys, ends all programs on the desktop, ends
// the display, and waits for that. Running calls return ErrClosed. If this program is killed,
// the kernel ends the desktop's own programs. The next Start with the same StateDir, or Sweep,
// ends the launched ones.
//
// An X server, window manager, D-Bus daemon or PulseAudio that dies is replaced. So is a window
// manager that does not answer for 10 s, and an X server that does not answer for 10 s after a
// call timed out. The window manager, the mapping of the pointer's buttons and the keyboard are
// checked every 5 s, during calls and until 30 s after the last one. An unused desktop is not
// checked. Status and Subscribe report it. While there is no X server, calls that need one return
// ErrRestarting, but Feed.Next and FollowCursor wait. While there is no window manager, calls about
// windows return ErrRestarting. Windows end with their X server, without an event for each window.
//
// # Concurrency
//
// All methods may be called from any goroutine. Screenshots and queries run concurrently. Inputs
// run one at a time. A call returns a *DeadlineError after its own limit, also if its context
// has a later deadline or none: 5 s for queries, windows and Resize, 10 s for other input, 15 s
// for the clipboard, and 30 s for Start. Screenshot, Settle, Type and Launch describe theirs.
//
// Keys wait for up to 3 s until the window manager has handled the clicks and chords before them,
// so that they go to the window that these selected. Input, and reading the clipboard, also wait
// until the programs that got a click or a key in the last second have handled it, so that a menu
// is open and a chord has had its effect: for up to 2 s, or 0.3 s for a program that is never
// idle, such as a page with an animation. Input of viewers, and all input with Config.NoQuiesce,
// does not wait for programs.
//
// # Errors
//
// The Err variables, which errors wrap: test with errors.Is. *InvalidError, *MissingError,
// *DeadlineError, *InterruptedError and *ControlHeldError wrap some of them and say more. Every
// input can return a *ControlHeldError, and the error of Config.Policy. A call whose context ends
// returns an error that wraps the context's error or, for an input that has begun, an
// *InterruptedError that wraps its cause. A *DeadlineError does not wrap context.DeadlineExceeded.
//
// # Requirements
//
// Linux with Xvfb, openbox and dbus-daemon on PATH. Open needs xdg-open, and Listen needs
// pulseaudio 12 or later.
package desktop
