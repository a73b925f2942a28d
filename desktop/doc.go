// Package desktop owns one X desktop (Xvfb, openbox, D-Bus), tells what is on
// it and acts on it: screenshots, pointer, keyboard, windows, clipboard, apps.
// Many desktops may run in one program.
//
// # Usage
//
// Start runs a desktop; Launch puts a program on it; Screenshot shows it; Click,
// Type, Press and Scroll use it. See the example of Start.
//
// A Screenshot is an Observation: its ID, given back in a pointer action, makes
// the action's coordinates those of the picture, whatever its scale or region.
//
// Listen hears what programs play. Each desktop has its own PulseAudio, which
// starts with the first program that plays something.
//
// # Lifetime
//
// A Desktop lives until Close, which lets go of held keys, ends every program
// that was started on it, with all that those started, then the display, and
// waits for that. Calls under way return ErrClosed. When this program is
// killed, the kernel ends the desktop's own programs, and the next Start with
// the same StateDir, or Sweep, ends the rest.
//
// An X server, window manager, D-Bus daemon or PulseAudio that dies is replaced,
// and so is an X server that did not answer for 10 s after a call had to be given
// up. Calls meanwhile return ErrRestarting, but for those about sound, which need
// none of it; Status and Subscribe tell. Windows die with their X server, and no
// event tells of each of them.
//
// # Concurrency
//
// All methods may be called from any goroutine. Screenshots and questions run
// in parallel. Input runs one call at a time, so that a click with modifiers,
// or a text, is not mixed with another caller's. Every call has a deadline of
// its own, besides that of its context.
//
// Keys wait until the window manager has dealt with the clicks and chords before
// them, for 3 s at most, so that they go to the window that these chose. Input,
// and reading the clipboard, also wait until the programs that got a click or a
// key in the second before have dealt with it, as far as can be seen from
// outside: for 2 s at most, and for one that always has something to do, such as
// a page that moves, for 0.3 s. A menu is open then, and a chord has done what it
// does. What a viewer does goes on immediately, since a person waits for what they
// see. So does what any caller does with Config.NoQuiesce.
//
// # Errors
//
// The Err variables, and *InvalidError, *MissingError and *DeadlineError, which
// wrap some of them.
//
// # Requirements
//
// Linux with Xvfb, openbox and dbus-daemon on PATH; xdg-open for Open, and
// pulseaudio, 12 or later, for Listen.
package desktop
