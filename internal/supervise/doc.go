// Package supervise starts child processes that never outlive this program.
//
// It is the only package of the module that starts programs, and the registry of all
// children: [Others] and [Find] return children of any [Group].
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
// A child ends in one of four ways:
//
//   - It exits. Processes that it started continue, because programs such as xdg-open
//     start another program and exit. They still belong to the child and its group.
//   - [Child.Stop] ends the child and the processes that it started.
//   - [Group.Close] does so for the whole group.
//   - This program dies. The kernel kills the direct children immediately
//     (PR_SET_PDEATHSIG). The guardian ends the others if [StartGuardian] was called.
//     Else [Sweep] ends them when the program starts the next time.
//
// # Children of other users
//
// A child with Spec.Credential starts in two steps: this program is executed again, and
// takes the ids of the other user in an init function of this package. So this program
// never shares its memory with a process that another user may send signals to.
//
// # How processes of a group are found
//
// Process ids are reused, names prove nothing, and a daemon leaves its parent, its
// process group and its session. So each group has a random token, which its children
// inherit in the environment variable [GroupVariable]. A process belongs to a group if
// one of these is true:
//
//   - It is a descendant of one of the group's children.
//   - It is in the process group or session of a child that was not yet waited for.
//   - It has the token in the first 128 KiB of its environment, started after the group, and
//     has the user id of this program, unless that is root.
//
// Signals to single processes go through a pidfd. The process is checked again after
// the pidfd was opened, so that a reused id is never signalled.
//
// A program with a guardian also marks its children with a limit that they inherit and
// that nothing else uses (RLIMIT_LOCKS). The guardian and [Sweep] find processes by that
// mark. [Child.Stop] and [Group.Close] do not: they cannot find a process that hides its
// environment, as setuid programs do, and leaves its tree. A caller that needs this
// starts the child in its own control group (Spec.Cgroup). Where this program can make control
// groups, children of other users are in one of their Group, whose Close ends all processes in it.
//
// # Concurrency
//
// All functions and methods may be called concurrently. [Group.Close] must not be
// called from an Output writer.
//
// # Errors
//
// [ErrClosed], [ErrNotFound] and [ErrNoRoom]. A [LeftoverError] names processes that
// SIGKILL did not end.
//
// # Requirements
//
// Linux with /proc. Without pidfds (Linux 5.3) each child costs a waiting thread, and an
// id could be reused in the microseconds between the check and a signal.
package supervise
