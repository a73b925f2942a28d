package quiesce

import "golang.org/x/sys/unix"

// System calls that the kernel has only on some processors.
const (
	callPoll      = unix.SYS_POLL
	callEpollWait = unix.SYS_EPOLL_WAIT
)
