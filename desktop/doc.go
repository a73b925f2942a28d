// Package desktop runs an X desktop (Xvfb, openbox, D-Bus), reports what is on it, and acts
// on it: screenshots, pointer, keyboard, windows, clipboard and programs. A program can run
// many desktops.
//
// # Usage
//
// Start runs a desktop. Launch starts a program on it, Screenshot takes a picture of it, and
// Click, Type, Press and Scroll use it. See the example. Attach uses a desktop that runs
// already. Listen returns the sound of its programs. Each desktop has its own PulseAudio, which
// starts with the first program that plays something.
//
// A Screenshot is an Observation. A pointer action with its ID takes coordinates in the
// picture, whatever its scale or region.
//
// # Lifetime
//
// A Desktop lives until Close, which releases held keys, ends all programs that were started on
// the desktop and the programs that they started, ends the display, and waits for that. Calls
// that run return ErrClosed. If this program is killed, the kernel ends the desktop's own
// programs. The next Start with the same StateDir, or Sweep, ends the others.
//
// An X server, window manager, D-Bus daemon or PulseAudio that dies is replaced, and so is an X
// server that does not answer within 10 s after a call timed out. Calls return ErrRestarting
// meanwhile, except those about sound. Status and Subscribe report it. Windows die with their X
// server, without an event for each window.
//
// # Concurrency
//
// All methods may be called from any goroutine. Screenshots and queries run concurrently. Input
// runs one call at a time, so that a click with modifiers, or a text, is not mixed with the input
// of another caller. Every call has a deadline of its own in addition to that of its context.
//
// Keys wait up to 3 s until the window manager has handled the clicks and chords before them, so
// that they go to the window that these selected. Input, and reading the clipboard, also wait
// until the programs that got a click or a key in the last second have handled it, so that a menu
// is open and a chord has had its effect. They wait up to 2 s, or 0.3 s for a program that is never
// idle, such as a page with an animation. Input of viewers does not wait for programs, and neither
// does any input with Config.NoQuiesce.
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
