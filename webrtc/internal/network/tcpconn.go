package network

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tcpQueue is how many bytes may wait for a viewer's TCP connection. Pictures block
	// when it is full, and are skipped later. What waits is shown late.
	tcpQueue = 64 << 10
	// tcpReserve is how many more bytes may wait if they keep the connection alive.
	tcpReserve = 8 << 10
	// tcpStalled is the time without progress after which packets are discarded.
	tcpStalled = 2 * time.Second
	// tcpDead is the time without progress after which the connection is closed.
	tcpDead = 15 * time.Second
	// tcpPiece is how many bytes one write has.
	tcpPiece = 16 << 10
	// kernelQueue is how many unsent bytes the kernel accepts for a connection. Its
	// default is megabytes, which delay pictures by seconds.
	kernelQueue = 64 << 10
)

// tcpConn is a connection with a queue, from which a goroutine writes. Only media ever
// waits for the connection.
type tcpConn struct {
	conn   net.Conn
	wake   chan struct{} // there is something to write
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex // guards what follows
	queue    []byte     // packets with their lengths
	spare    []byte     // the memory of the queue before
	progress time.Time  // when the line last accepted something
	room     chan struct{}
}

func newTCPConn(conn net.Conn) *tcpConn {
	_ = conn.SetDeadline(time.Time{})
	keepQueueShort(conn)
	return &tcpConn{conn: conn, wake: make(chan struct{}, 1), closed: make(chan struct{}), progress: time.Now()}
}

func (c *tcpConn) close() {
	c.once.Do(func() {
		close(c.closed)
		_ = c.conn.Close()
	})
}

// send queues a packet. If the queue is full, it blocks for up to tcpStalled and then
// discards the packet. It discards STUN messages immediately. It returns false if the
// connection is closed.
func (c *tcpConn) send(b []byte) bool {
	if len(b) == 0 || len(b) > maxPacket {
		return true
	}
	most := tcpQueue
	vital := b[0] < 4 // STUN (RFC 7983)
	if vital {
		most += tcpReserve
	}
	for {
		c.mu.Lock()
		if len(c.queue)+framing+len(b) <= most {
			if len(c.queue) == 0 {
				c.progress = time.Now()
			}
			c.queue = binary.BigEndian.AppendUint16(c.queue, uint16(len(b))) //nolint:gosec // it is at most maxPacket
			c.queue = append(c.queue, b...)
			c.mu.Unlock()
			select {
			case c.wake <- struct{}{}:
			default:
			}
			return true
		}
		patience := time.Until(c.progress.Add(tcpStalled))
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		if vital || patience <= 0 {
			return true
		}
		if open := c.await(room, patience); !open {
			return false
		}
	}
}

func (c *tcpConn) await(room <-chan struct{}, patience time.Duration) (open bool) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-room:
	case <-t.C:
	case <-c.closed:
		return false
	}
	return true
}

// write sends the queue until the connection ends.
func (c *tcpConn) write() {
	defer c.close()
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		batch := c.batch()
		for rest := range slices.Chunk(batch, tcpPiece) {
			_ = c.conn.SetWriteDeadline(time.Now().Add(tcpDead))
			if _, err := c.conn.Write(rest); err != nil {
				return
			}
			c.mu.Lock()
			c.progress = time.Now()
			c.mu.Unlock()
		}
		c.mu.Lock()
		c.spare = batch[:0]
		c.mu.Unlock()
	}
}

// batch empties the queue and returns what was in it.
func (c *tcpConn) batch() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.queue
	c.queue, c.spare = c.spare[:0], nil
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
	return batch
}

func keepQueueShort(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, kernelQueue)
	})
}
