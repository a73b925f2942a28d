// Package timeline records what happens on a desktop while a video is made of it: actions,
// windows, control, markers and events of the caller.
//
// # Usage
//
// [Start] writes a timeline to a file and follows the desktop until [Timeline.Close].
// [Timeline.Mark] and [Timeline.Add] add entries. [Read] reads a file, [ReadPage] a part of
// it, and [AddMarker] marks a video that has ended. [WriteWebVTT] and [Chapters] put entries
// into words. See the example.
//
// # Files
//
// A file has one entry in JSON on each line. The number of an entry ([Entry.Seq]) is the
// order in which the entry became known: an action that took a while comes after the events
// that it caused, and its [Entry.At] is when it began. An entry is in the file after
// about a second or [Timeline.Flush]. A last line that a crash cut off is ignored, and so is
// any line that is not an entry.
//
// # Limits
//
// A file has at most 64 MiB. Windows, the clipboard and sizes of the screen can use an
// eighth of it, events of the caller a quarter, and markers a sixteenth. The rest is for
// actions, control and failures. An entry of the type desktop.EventGap stands for entries
// that were left out.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine, except that AddMarker must
// not run twice for one file at the same time.
//
// # Errors
//
// Functions return [ErrFull], [ErrClosed] or an [*InvalidError]. All other errors come from
// the operating system.
package timeline
