//go:build !amd64

package quiesce

// System calls that the kernel has only on some processors.
const (
	callPoll      = ^uint64(0)
	callEpollWait = ^uint64(0) - 1
)
