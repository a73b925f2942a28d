// Package process starts, watches and ends programs, with or without a terminal. The
// programs do not outlive this one.
//
// # Usage
//
// New returns a [Manager]. [Manager.Run] waits for the end of a program and returns its
// output. [Manager.Start] starts a [Process] in the background, which is listed, takes
// input, and can be stopped and killed. Its output is kept in a [Log], which any number of
// readers follow at their own pace. See the examples.
//
// The list also contains the children of other parts of the program, such as the X server
// and the applications of desktops. They can be watched, stopped and killed, but take no
// input.
//
// # Output
//
// Output is numbered in the order of its arrival and kept in a ring of bytes, which drops
// the oldest output. The output of a process is read at full speed, independently of
// readers of the log. A [Reader] that is further behind than the ring is long gets a [Gap]
// and continues with the oldest output. All readers share the bytes.
//
// Output that arrives within 10 ms is joined to one entry, unless a reader has already
// got the first part.
//
// # Lifetime
//
// [Process.Stop] and [Process.Kill] end a process and the processes that it started.
// [Manager.Close] ends all processes and waits for them. If a process exits, processes that
// it started continue until one of these calls. If this program is killed, the kernel kills
// its processes, and the next [New] with the same Config.Dir ends the processes that they had
// started.
//
// The record and the log of an ended process are kept until [Manager.Remove], or until the
// number or the size of records exceeds its limit, the oldest first.
//
// # Concurrency
//
// All methods may be called concurrently, except the methods of a [Reader]. A context
// bounds only its call.
//
// # Errors
//
// The Err variables, and [LimitError] for too many processes, [InvalidError] for a wrong
// argument, [InputTooLargeError] and [InputError] for input that the process did not get,
// and [StartError] for a program that the system did not start.
//
// # Requirements
//
// Linux with /proc. Terminals need /dev/ptmx and /dev/pts. Running programs as another user
// needs root.
package process
