package x11

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// errNotShared is returned if the server attached another segment.
var errNotShared = errors.New("the X server is in another IPC namespace")

// segment is memory for pixels from the server: shared (MIT-SHM), or filled from replies.
type segment struct {
	mem    []byte
	shared bool
}

// newSegment makes a segment, which is shared as id if the server has MIT-SHM and can
// attach it: the server may run in another container.
func (c *Conn) newSegment(id shm.Seg, size int) *segment {
	if c.ext.shm {
		mem, err := c.attachShared(id, size)
		if err == nil {
			return &segment{mem, true}
		}
		c.log.Debug("capture without shared memory", "error", err)
	}
	return &segment{mem: make([]byte, size)}
}

func (c *Conn) attachShared(id shm.Seg, size int) ([]byte, error) {
	key, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		return nil, fmt.Errorf("shmget %d bytes: %w", size, err)
	}
	// After IPC_RMID, the kernel frees the segment with its last attachment, even if this
	// process is killed. Until then, Linux lets the server attach it by number.
	mem, err := unix.SysvShmAttach(key, 0, 0)
	c.admitServer(key)
	_, _ = unix.SysvShmCtl(key, unix.IPC_RMID, nil)
	if err != nil {
		return nil, fmt.Errorf("shmat: %w", err)
	}
	err = shm.AttachChecked(c.x, id, uint32(key), false).Check()
	if err == nil {
		if err = c.checkShared(id, mem); err != nil {
			shm.Detach(c.x, id)
		}
	}
	if err != nil {
		_ = unix.SysvShmDetach(mem)
		return nil, fmt.Errorf("attach: %w", err)
	}
	return mem, nil
}

// admitServer lets a server that runs as another user attach a segment: it gives the segment
// to that user. Only root runs such a server. This program stays the creator of the segment
// and keeps its rights.
func (c *Conn) admitServer(key int) {
	server, ok := c.wire.peer()
	if !ok || int(server.Uid) == os.Geteuid() {
		return
	}
	var desc unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(key, unix.IPC_STAT, &desc); err != nil {
		return // attaching then fails with the reason
	}
	desc.Perm.Uid = server.Uid
	_, _ = unix.SysvShmCtl(key, unix.IPC_SET, &desc)
}

// checkShared returns an error unless the server writes to the memory: in another IPC
// namespace, the number may mean another segment. A pixel cannot equal both patterns.
func (c *Conn) checkShared(id shm.Seg, mem []byte) error {
	for _, pattern := range [][]byte{{1, 2, 3, 4}, {5, 6, 7, 8}} {
		copy(mem, pattern)
		_, err := shm.GetImage(c.x, xproto.Drawable(c.root), 0, 0, 1, 1, allPlanes, xproto.ImageFormatZPixmap, id, 0).Reply()
		if err != nil {
			return err
		}
		if !bytes.Equal(mem[:4], pattern) {
			return nil
		}
	}
	return errNotShared
}

// free frees a segment. The server must not be writing to it.
func (c *Conn) free(id shm.Seg, s *segment) {
	if s == nil || !s.shared {
		return
	}
	shm.Detach(c.x, id)
	_ = unix.SysvShmDetach(s.mem)
	s.mem = nil
}

// allPlanes asks for all bits of a pixel.
const allPlanes = ^uint32(0)

// imageRequest is a request for rows of the screen.
type imageRequest struct {
	shared shm.GetImageCookie
	plain  xproto.GetImageCookie
	offset int
}

// request asks for h rows of w pixels of the root window, from row y, into the same rows of
// the segment.
func (c *Conn) request(id shm.Seg, s *segment, y, w, h int) imageRequest {
	r := imageRequest{offset: y * w * 4}
	root := xproto.Drawable(c.root)
	if s.shared {
		r.shared = shm.GetImage(c.x, root, 0, int16(y), uint16(w), uint16(h), allPlanes, xproto.ImageFormatZPixmap, id, uint32(r.offset))
	} else {
		c.wire.expect(4 * w * h)
		r.plain = xproto.GetImage(c.x, xproto.ImageFormatZPixmap, root, 0, int16(y), uint16(w), uint16(h), allPlanes)
	}
	return r
}

// wait returns once the pixels are in the segment.
func (r *imageRequest) wait(s *segment) error {
	if s.shared {
		_, err := r.shared.Reply()
		return err
	}
	reply, err := r.plain.Cookie.Reply() // raw: GetImage's own Reply copies the pixels
	if err == nil {
		copy(s.mem[r.offset:], reply[32:])
	}
	return err
}

// outOfScreen reports whether an error is about pixels beyond the screen, which may have
// become smaller (X11 protocol, GetImage: Match).
func outOfScreen(err error) bool {
	_, match := errors.AsType[xproto.MatchError](err)
	return match
}
