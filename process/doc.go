// Package process starts, watches and ends programs, with or without a terminal. What it
// starts does not outlive it.
//
// # Usage
//
// New returns a [Manager]. [Manager.Run] waits for the end of a program and returns its
// output. [Manager.Start] starts a [Process] in the background, which is listed, takes
// input, and can be stopped and killed. Its output is kept in a [Log], which any number of
// readers follow at their own pace. See the examples.
//
// The list also has the children of other parts of the program, such as the X server and
// the applications of desktops. They can be watched, stopped and killed, but take no input.
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
// A process ends by itself, by [Process.Stop] or [Process.Kill], which also end the
// processes that it started, or by [Manager.Close], which ends all processes and waits for
// that. Processes that a process leaves running when it ends by itself live until one of
// these calls. If this program is killed, the kernel kills the processes that it started,
// and the next [New] with the same Config.Dir ends the processes that those had started.
//
// The record of a process that has ended, and its log, are kept until [Manager.Remove], or
// until there are too many or they are too large.
//
// # Concurrency
//
// All methods may be called from any goroutine, except those of a [Reader], which is for
// one goroutine at a time. A context bounds only its call.
//
// # Errors
//
// The Err variables. [LimitError] says that too many processes run, [InvalidError] that an
// argument is wrong, [InputTooLargeError] and [InputError] that input was not taken, and
// [StartError] why the system did not start the program.
//
// # Requirements
//
// Linux with /proc. Terminals need /dev/ptmx and /dev/pts. Running programs as another user
// needs root.
package process
