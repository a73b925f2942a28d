package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstSocket is the file descriptor of the first socket that systemd passes
// (sd_listen_fds(3)).
const firstSocket = 3

// entryName is the name of the socket that internal/entry passes in a container.
const entryName = "deskhand-entry"

// passedSocket returns the listener that systemd passed to this process, nil if
// it passed none. Children do not inherit it or the variables that describe it. A
// listener of internal/entry is used only if it has the address, because that program
// does not understand every command line.
func passedSocket(address string) (net.Listener, error) {
	pid, count, name := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("socket of systemd: %w", err)
		}
	}
	if pid != strconv.Itoa(os.Getpid()) || count == "" {
		return nil, nil //nolint:nilnil // there is no socket, which is no error
	}
	if count != "1" {
		return nil, fmt.Errorf("systemd passed %s sockets, and deskhand serves one: keep a single ListenStream= in the socket unit", count)
	}
	unix.CloseOnExec(firstSocket)
	file := os.NewFile(firstSocket, "socket of systemd")
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("socket of systemd: %w", err)
	}
	if _, ok := ln.Addr().(*net.TCPAddr); !ok {
		_ = ln.Close()
		return nil, fmt.Errorf("systemd passed the socket %s, and deskhand serves TCP: write ListenStream=127.0.0.1:%d in the socket unit", ln.Addr(), defaultPort)
	}
	if name == entryName && ln.Addr().String() != address {
		return nil, ln.Close()
	}
	return ln, nil
}
