// Command entry is the first program of a container: it opens the port of the
// server, and becomes the server.
//
// # Usage
//
//	entry /usr/local/bin/deskhand server --host 0.0.0.0
//
// Docker accepts connections for a published port as soon as the container's
// first program runs, and closes those that the container refuses. A client that
// calls then fails; the fetch of Node.js 20 may hang. deskhand takes about 15 ms to
// open its port, because it is large; this program takes about 1 ms. It passes the socket the
// way systemd does (sd_listen_fds(3)). deskhand does not use it if its flags name
// another address.
//
// It leaves the port to deskhand if the command is not "server", the port is 0, the
// host is not an IPv4 address, or the port cannot be opened.
package main

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const passedSocket = 3 // the file descriptor, by the protocol

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: entry PROGRAM [ARGUMENT]...")
		os.Exit(2)
	}
	env := os.Environ()
	if at, ok := address(os.Args[2:], os.Getenv); ok && listen(at) == nil {
		env = append(env, "LISTEN_PID="+strconv.Itoa(os.Getpid()), "LISTEN_FDS=1", "LISTEN_FDNAMES=deskhand-entry")
	}
	err := syscall.Exec(os.Args[1], os.Args[1:], env)
	fmt.Fprintf(os.Stderr, "start %s: %v\n", os.Args[1], err)
	os.Exit(126)
}

// address returns the address of the server that the arguments describe. ok is false if the
// server must open the port itself.
func address(words []string, env func(string) string) (at netip.AddrPort, ok bool) {
	if len(words) == 0 || words[0] != "server" {
		return at, false
	}
	host, port := "127.0.0.1", "2468"
	for _, prefix := range []string{"SANDBOX_AGENT_", "DESKHAND_"} {
		if v := env(prefix + "HOST"); v != "" {
			host = v
		}
		if v := env(prefix + "PORT"); v != "" && !strings.HasPrefix(v, "tcp://") {
			port = v
		}
	}
	for i := 1; i < len(words); i++ {
		for _, flag := range []struct {
			long, short string
			value       *string
		}{{"--host", "-H", &host}, {"--port", "-p", &port}} {
			if (words[i] == flag.long || words[i] == flag.short) && i+1 < len(words) {
				*flag.value = words[i+1]
			} else if v, found := strings.CutPrefix(words[i], flag.long+"="); found {
				*flag.value = v
			}
		}
	}
	at, err := netip.ParseAddrPort(host + ":" + port)
	return at, err == nil && at.Addr().Is4() && at.Port() != 0
}

// listen opens a port, as the file descriptor passedSocket, which outlives exec.
func listen(at netip.AddrPort) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	if err == nil {
		err = syscall.Listen(fd, 4096)
	}
	if err == nil && fd != passedSocket {
		err = syscall.Dup3(fd, passedSocket, 0)
		_ = syscall.Close(fd)
	}
	if err != nil {
		_ = syscall.Close(fd)
	}
	return err
}
