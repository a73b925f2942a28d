// Package quiesce waits until programs have handled the input that they got.
//
// # Usage
//
// A [Tracker] belongs to one X connection. The sender of input records what it did
// ([Tracker.Acted], [Tracker.Typed], [Tracker.Pressed], [Tracker.ManagerMayAct]) and calls
// one of these before it sends more:
//
//   - [Tracker.Quiesce] waits for the programs that got input and for the window manager.
//   - [Tracker.AwaitManager] waits for the window manager alone, and for the focus.
//   - [Tracker.AwaitListener] waits until a program wants the keys of a window.
//   - [Tracker.Drain] waits until programs have read the keys that were typed.
//
// # Evidence
//
// No X request reports whether a program has handled an event. These signs do:
//
//   - A window manager answers a request that comes after the event ([Manager]).
//   - An application answers _NET_WM_PING, in the order of its events.
//   - The process of an application that answers no pings has read its connection
//     (sock_diag), and all of its threads sleep (/proc). An event of the Tracker wakes
//     it, and it sleeps again.
//   - The kernel has passed on what a terminal has written to its program, which sleeps.
//   - A browser's processes are almost idle for longer than a picture takes.
//   - A paste has ended when the owner of the selection and the program that pastes are
//     idle.
//
// Waits for a program have limits, in which the time does not count that the program waits for a
// processor.
//
// # Lifetime
//
// A Tracker and a Manager have no goroutine. They end with the connection.
//
// # Concurrency
//
// The caller must hold a lock while it sends input and calls a Tracker's methods, except for
// Event and AwaitListener. A Manager needs no lock.
//
// # Errors
//
// request.ErrConnClosed if the connection ends, ErrNotDrained, and the error of the context.
// Quiesce returns nil if a program does not answer in time. Its next wait for the same
// window is short.
//
// # Requirements
//
// Linux. Without sock_diag or X-Resource, there are fewer signs.
package quiesce
