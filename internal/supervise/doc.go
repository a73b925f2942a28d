// Package supervise starts child processes that never outlive this program.
//
// It is the only package of the module that starts programs, and the registry
// of what runs: [Children] lists the children of every [Group], which is what
// the process list of the server shows.
//
// # Usage
//
//	g, err := supervise.NewGroup(supervise.GroupConfig{Owner: "user"})
//	defer g.Close()
//	c, err := g.Start(supervise.Spec{Path: "sleep", Args: []string{"60"}})
//	<-c.Done()
//	fmt.Println(c.Exit())
//
// # Lifetime
//
// A child may end in four ways, and nothing of it is left in any of them:
//
//   - By itself. What it started lives on, because a program that hands over to
//     another one and exits (xdg-open, a session script) is no accident. Such
//     left-overs belong to the child and to its group still.
//   - By [Child.Stop], which ends the child and all that it started.
//   - By [Group.Close], which does so for the whole group.
//   - By the sudden death of this program: the kernel kills the direct children
//     at once (PR_SET_PDEATHSIG). The rest is ended by the guardian, if
//     [StartGuardian] was called, else by [Sweep] when the program starts the
//     next time.
//
// # How left-overs are told from foreign processes
//
// Process numbers are reused, names prove nothing, and a daemon leaves its
// parent, its process group and its session. So each group has a random token,
// which its children inherit in the environment variable [GroupVariable]; a
// process belongs to a group when it is a descendant of one of the group's
// children, is in the process group or session of a child that was not yet
// waited for, or has the token in its environment, started after the group, and
// has our user id, unless we are root. Every signal outside of such a process
// group goes through a pidfd, whose process is checked again after the pidfd was
// opened, so that a number which was reused in between is never hit.
//
// A program with a guardian also marks what it starts with a limit that children
// inherit and that nothing else uses (RLIMIT_LOCKS). The guardian and [Sweep]
// find processes by that mark; [Child.Stop] and [Group.Close] do not.
//
// For them, a process which cleans its environment, or forbids reading it (setuid
// programs), and also leaves its tree before it is looked for cannot be found.
// Callers who need that too start the child in a control group of their own
// (Spec.Cgroup).
//
// # Concurrency
//
// Everything may be called from any goroutine. [Group.Close] must not be
// called from an Output writer.
//
// # Errors
//
// [ErrClosed], [ErrNotFound], [ErrNoRoom]; a [LeftoverError] names processes that survived
// SIGKILL, which only an uninterruptible system call makes possible.
//
// # Requirements
//
// Linux with /proc. pidfds (Linux 5.3) are used where the kernel has them;
// without them each waiting child costs a thread, and the check before a signal
// leaves a window of microseconds.
package supervise
