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
// picture, whatever its scale or region.
//
// # Lifetime
//
// A Desktop lives until Close, which releases held keys, ends all programs on the desktop, ends
// the display, and waits for that. Calls under way return ErrClosed. If this program is killed,
// the kernel ends the desktop's own programs. The next Start with the same StateDir, or Sweep,
// ends the launched ones.
//
// An X server, window manager, D-Bus daemon or PulseAudio that dies is replaced, and so is an X
// server that does not answer for 10 s after a call timed out. Meanwhile, all calls but Listen
// return ErrRestarting. Status and Subscribe report it. Windows end with their X server, without
// an event for each window.
//
// # Concurrency
//
// All methods may be called from any goroutine. Screenshots and queries run concurrently. Inputs
// run one at a time. Every call has a deadline of its own in addition to that of its context.
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
// The Err variables. *InvalidError, *MissingError, *DeadlineError, *InterruptedError and
// *ControlHeldError wrap some of them and say more.
//
// # Requirements
//
// Linux with Xvfb, openbox and dbus-daemon on PATH. Open needs xdg-open, and Listen needs
// pulseaudio 12 or later.
package desktop
