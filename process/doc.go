// Package process starts, watches and ends programs, with or without a
// terminal; nothing it starts outlives it.
//
// # Usage
//
//	m, err := process.New(process.Config{})
//	defer m.Close()
//	r, err := m.Run(ctx, process.Spec{Command: "make", Dir: dir}, process.RunOptions{})
//	fmt.Printf("%s", r.Stdout)
//
// [Manager.Run] waits for the end of a program and returns what it wrote.
// [Manager.Start] starts one in the background: it is listed, can be written to,
// stopped and killed, and keeps its output in a [Log], which any number of
// readers follow at their own pace.
//
// The list has the children of all other parts of the program as well (the X
// server and the applications of desktops): they can be watched, stopped and
// killed, but not written to.
//
// # Lifetime
//
// A process ends by itself, by [Process.Stop] or [Process.Kill], which also end
// what it started, or by [Manager.Close], which ends everything and waits for
// that. What a process leaves running when it ends by itself lives on until one
// of these calls. When the program itself is killed, the kernel kills the
// processes that it started, and the next [New] with the same Config.Dir ends
// what those had started.
//
// The record of a process that has ended, with its log, stays until
// [Manager.Remove], or until there are too many or too large ones.
//
// # Output
//
// Output is numbered as it arrives and kept in a ring of bytes, the oldest of
// which are dropped. Processes are read at full speed whoever reads the log. A
// [Reader] that falls behind by more than the ring holds is told so by a [Gap]
// and goes on with the oldest that is there. All readers share the bytes.
//
// Pieces that follow each other within 10 ms become one entry as long as nobody
// has seen the first of them, so a quick reader sees them as they were written
// and a slow one does not have to handle each of them.
//
// # Concurrency
//
// Everything may be called from any goroutine, but a [Reader] by one at a time.
// Contexts bound the calls that they are given to and nothing else.
//
// # Errors
//
// [ErrClosed], [ErrNotFound], [ErrRunning], [ErrNotRunning], [ErrNotTerminal] and
// [ErrInputClosed]; [LimitError] when too many run, [InvalidError] for arguments
// that make no sense, [InputTooLargeError] and [InputError] for input that was
// not taken, [StartError] with what the system said when it would not start a
// program.
//
// # Requirements
//
// Linux with /proc; for terminals /dev/ptmx and /dev/pts. To run programs as
// another user, this one must be root's.
package process
