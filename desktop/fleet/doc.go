// Package fleet runs many desktops by id, with their live views and recordings, in one
// state directory.
//
// # Usage
//
// Open returns a Fleet. Create adds a desktop and starts it: an [Instance], which can be
// stopped and started again. Instance.Desktop returns the running desktop,
// Instance.Stream its live view (package webrtc) and Instance.Record starts a recording
// of it (package recording). See the example, which does all of that.
//
// The desktop with the id [Main] always exists, and need not be created or started.
// Recordings outlive their desktop. If it was deleted, or belonged to an earlier program,
// [Fleet.Recorded] and [Fleet.FindRecorded] find its recordings.
//
// # Lifetime
//
// Open starts nothing. A desktop runs from Start, which Create calls, until Stop,
// Delete, or the end of the Fleet. A live view begins with Stream and ends with its
// desktop, as recordings do. Close ends everything and waits for that.
//
// Files stay in the state directory. If the Fleet chose the id of a desktop, its files are
// removed with the desktop. [Fleet.Sweep] ends the processes that a killed program left
// running, and removes such files, but not the recordings.
//
// One program at a time can use a state directory. It is claimed, and created if it does
// not exist, by the first call that needs it, and released by Close. That first call waits for
// a program that has the directory and is closing. List, Status, Find, Recorded and
// FindRecorded only read: they neither claim nor create the directory. See [StateDir].
//
// # Concurrency
//
// All methods may be called from any goroutine. A ctx bounds its call only: when it ends, the
// start or stop continues, except the start of Create, which is stopped. Concurrent callers of
// Start wait for one start and get the same result.
//
// # Errors
//
// The Err variables. An [Error] wraps one and has the id of the desktop. [StateError],
// [LimitError] and [InvalidError] also wrap one, and say more. Errors of packages
// desktop, webrtc and recording are returned unchanged or wrapped.
//
// # Requirements
//
// Those of packages desktop, webrtc and recording: Linux with Xvfb, openbox and
// dbus-daemon, and ffmpeg with ffprobe for recordings.
package fleet
