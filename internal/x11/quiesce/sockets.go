package quiesce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Constants of the kernel's linux/sock_diag.h and linux/unix_diag.h (see
// sock_diag(7)).
const (
	sockDiagByFamily = 20
	unixShowName     = 1 << 0
	unixShowPeer     = 1 << 2
	unixShowQueue    = 1 << 4
	unixDiagName     = 0
	unixDiagPeer     = 2
	unixDiagQueue    = 4
	unixDiagRequest  = 24 // struct unix_diag_req
	unixDiagMessage  = 16 // struct unix_diag_msg
)

// errNoDiag is returned if the kernel does not describe sockets.
var errNoDiag = errors.New("no socket diagnosis")

// socketDiag asks the kernel about Unix sockets.
type socketDiag struct {
	fd  int
	buf [4096]byte
}

func openSocketDiag() (*socketDiag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, errNoDiag
	}
	// The kernel answers within the request. The timeout is for other kernels.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		_ = unix.Close(fd)
		return nil, errNoDiag
	}
	return &socketDiag{fd: fd}, nil
}

func (d *socketDiag) close() { _ = unix.Close(d.fd) }

// unixSocket describes a socket.
type unixSocket struct {
	name   string
	peer   uint32 // inode
	unread uint32 // bytes
}

// socket describes the Unix socket with an inode. ok is false if there is none.
func (d *socketDiag) socket(inode uint32) (s unixSocket, ok bool, err error) {
	req := make([]byte, unix.NLMSG_HDRLEN+unixDiagRequest)
	le := binary.NativeEndian
	le.PutUint32(req, uint32(len(req)))
	le.PutUint16(req[4:], sockDiagByFamily)
	le.PutUint16(req[6:], unix.NLM_F_REQUEST)
	body := req[unix.NLMSG_HDRLEN:]
	body[0] = unix.AF_UNIX
	le.PutUint32(body[4:], ^uint32(0)) // in any state
	le.PutUint32(body[8:], inode)
	le.PutUint32(body[12:], unixShowName|unixShowPeer|unixShowQueue)
	le.PutUint64(body[16:], ^uint64(0)) // any cookie
	if err := unix.Sendto(d.fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return s, false, errNoDiag
	}
	n, _, err := unix.Recvfrom(d.fd, d.buf[:], 0)
	if err != nil || n < unix.NLMSG_HDRLEN {
		return s, false, errNoDiag
	}
	msg := d.buf[:n]
	if le.Uint16(msg[4:]) == unix.NLMSG_ERROR {
		if n >= unix.NLMSG_HDRLEN+4 && -int32(le.Uint32(msg[unix.NLMSG_HDRLEN:])) == int32(unix.ENOENT) {
			return s, false, nil
		}
		return s, false, errNoDiag
	}
	if le.Uint16(msg[4:]) != sockDiagByFamily || n < unix.NLMSG_HDRLEN+unixDiagMessage {
		return s, false, errNoDiag
	}
	return parseUnixSocket(msg[unix.NLMSG_HDRLEN+unixDiagMessage:]), true, nil
}

// parseUnixSocket reads the attributes of an answer (netlink(7), rtattr).
func parseUnixSocket(b []byte) (s unixSocket) {
	le := binary.NativeEndian
	for len(b) >= unix.SizeofRtAttr {
		size, kind := int(le.Uint16(b)), le.Uint16(b[2:])
		if size < unix.SizeofRtAttr || size > len(b) {
			break
		}
		v := b[unix.SizeofRtAttr:size]
		switch {
		case kind == unixDiagName:
			s.name = string(v)
		case kind == unixDiagPeer && len(v) >= 4:
			s.peer = le.Uint32(v)
		case kind == unixDiagQueue && len(v) >= 4:
			s.unread = le.Uint32(v)
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return s
}

// maxDescriptors is how many descriptors of a process are examined. The kernel lists the lowest
// first.
const maxDescriptors = 4096

// displaySockets returns the inodes of a process's sockets to a display, and of their other
// ends.
func (d *socketDiag) displaySockets(pid, display int) (inodes []uint32, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, _ := firstNames(dir, maxDescriptors)
	if names == nil {
		return nil, errNoDiag // the process has ended, or belongs to another user
	}
	seen := map[string]bool{}
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir, name))
		number, ok := strings.CutPrefix(link, "socket:[")
		if err != nil || !ok || seen[number] {
			continue
		}
		seen[number] = true
		inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32)
		if err != nil {
			continue
		}
		s, ok, err := d.socket(uint32(inode))
		if err != nil {
			return nil, err
		}
		if !ok || s.peer == 0 {
			continue
		}
		server, ok, err := d.socket(s.peer)
		if err != nil {
			return nil, err
		}
		if ok && strings.HasSuffix(strings.TrimRight(server.name, "\x00"), "/.X11-unix/X"+strconv.Itoa(display)) {
			inodes = append(inodes, uint32(inode), s.peer)
		}
	}
	return inodes, nil
}

// unread reports whether one of the sockets has unread data.
func (d *socketDiag) unread(inodes []uint32) (bool, error) {
	for _, inode := range inodes {
		s, _, err := d.socket(inode)
		if err != nil || s.unread > 0 {
			return s.unread > 0, err
		}
	}
	return false, nil
}
