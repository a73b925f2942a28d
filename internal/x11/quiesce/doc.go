// Package quiesce waits until programs have dealt with the input that they got.
//
// # Usage
//
// A [Tracker] belongs to one X connection. The code that sends input tells it what
// it did ([Tracker.Acted], [Tracker.Typed], [Tracker.Pressed],
// [Tracker.ManagerMayAct]) and calls one of its waits before it sends more:
//
//   - [Tracker.Quiesce] waits for the programs that got input and for the window manager.
//   - [Tracker.AwaitManager] waits for the window manager alone, and for the focus.
//   - [Tracker.AwaitListener] waits until a program wants the keys of a window.
//   - [Tracker.Drain] waits until programs have read the keys that were typed.
//
// # Evidence
//
// No X request tells whether a program has dealt with an event. These signs do:
//
//   - A window manager answers a request that comes after the event ([Manager]).
//   - An application answers _NET_WM_PING, in the order of its events.
//   - The process of an application that answers no pings has read its connection
//     (sock_diag), and all of its threads sleep (/proc). An event of ours then wakes
//     it, and it sleeps again.
//   - A browser's processes have almost nothing to do for longer than a picture takes.
//   - A paste is over when the owner of the selection and the program that asked for
//     it have nothing to do.
//
// # Lifetime
//
// A Tracker and a Manager have no goroutine. They end with the connection.
//
// # Concurrency
//
// Event, Follow and FollowClipboard aside, a Tracker's methods run one at a time:
// the owner has a lock around them and around the input that they are about.
// AwaitListener may run beside all others. A Manager needs no lock.
//
// # Errors
//
// request.ErrConnClosed if the connection ends, ErrNotDrained, and the error of the context.
// A program that does not answer in time is no error: every wait is bounded, and the
// next wait for the same window is short.
//
// # Requirements
//
// Linux. Without sock_diag or X-Resource the waits rely on fewer signs.
package quiesce
