package x11

import (
	"net"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// Raw is the connection below c, for tests that draw.
func (c *Conn) Raw() (*xgb.Conn, xproto.Window) { return c.x, c.root }

// WithoutShm makes c believe that the server has no MIT-SHM.
func (c *Conn) WithoutShm() { c.ext.shm = false }

// Handle exports Conn.handle.
func (c *Conn) Handle(f func(xgb.Event)) (remove func()) { return c.handle(f) }

// Cork and Uncork hold requests back.
func (c *Conn) Cork()         { c.wire.cork() }
func (c *Conn) Uncork() error { return c.wire.uncork() }

// SharesMemory reports whether the capture uses MIT-SHM. Only after a Frame, and
// not beside one.
func (cp *Capture) SharesMemory() bool { return cp.segment.shared }

// Trimmed reports whether the capture has no memory for pictures. Not beside a
// Frame.
func (cp *Capture) Trimmed() bool {
	return cp.segment == nil && cp.current == nil && cp.frames == nil
}

// ServerPID returns the process id of the X server.
func (c *Conn) ServerPID() (int, error) {
	raw, err := c.wire.Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var pid int
	var callErr error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, callErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); callErr == nil {
			pid = int(cred.Pid)
		}
	})
	if err == nil {
		err = callErr
	}
	return pid, err
}
