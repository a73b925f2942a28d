package accessibility

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// hostileMessage returns a message to the first call of a connection. Its body has a signature.
func hostileMessage(kind byte, signature string, body []byte) []byte {
	const serial = 1
	fields := []byte{8, 1, 'g', 0, byte(len(signature))}
	fields = append(append(fields, signature...), 0)
	pad := func() {
		for len(fields)%8 != 0 {
			fields = append(fields, 0)
		}
	}
	text := func(field byte, kind byte, s string) {
		pad()
		fields = append(fields, field, 1, kind, 0)
		fields = append(append(binary.LittleEndian.AppendUint32(fields, uint32(len(s))), s...), 0)
	}
	pad()
	fields = append(fields, 5, 1, 'u', 0, serial, 0, 0, 0)
	if kind == typeSignal {
		text(1, 'o', "/org/freedesktop/DBus")
		text(2, 's', "org.freedesktop.DBus")
		text(3, 's', "NameLost")
		text(7, 's', "org.freedesktop.DBus")
	}
	size := len(fields)
	pad()
	m := []byte{'l', kind, 0, 1}
	m = binary.LittleEndian.AppendUint32(m, uint32(len(body)))
	m = binary.LittleEndian.AppendUint32(m, 77)
	m = binary.LittleEndian.AppendUint32(m, uint32(size))
	return append(append(m, fields...), body...)
}

// TestHostileBus checks that a program in the place of the bus can neither end this program nor
// use its memory up.
func TestHostileBus(t *testing.T) {
	variant := append([]byte{3}, "a()\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for name, text := range map[string][]byte{
		"array of empty structs":       hostileMessage(typeReply, "a()", []byte{8, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}),
		"such an array in a variant":   hostileMessage(typeReply, "v", variant),
		"variants in variants":         hostileMessage(typeReply, "v", []byte{1, 'v', 0, 1, 'v', 0, 1, 'y', 0, 1}),
		"array of variants":            hostileMessage(typeReply, "av", []byte{0, 0, 0, 0}),
		"signal without a name":        hostileMessage(typeSignal, "", nil),
		"fields that exceed the end":   {'l', typeReply, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 8, 1, 's', 0, 255, 255, 255, 255},
		"signature that exceeds these": {'l', typeReply, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 8, 1, 'g', 0, 200, 'a', 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bus")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					line, err := in.ReadString('\n')
					switch {
					case err != nil:
						return
					case strings.HasSuffix(line, "AUTH\r\n"):
						_, _ = c.Write([]byte("REJECTED EXTERNAL\r\n"))
					case strings.HasPrefix(line, "AUTH"):
						_, _ = c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
					case line == begin:
						_, _ = in.Peek(16) // the call of Hello
						_, _ = c.Write(text)
						_, _ = c.Write(hostileMessage(typeReply, "s", append([]byte{4, 0, 0, 0}, ":1.1\x00"...)))
						_, _ = in.ReadBytes(0xff)
						return
					}
				}
			}()
			signals := make(chan struct{}, 1)
			b := &bus{}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			b.conn, b.transport, err = dial(ctx, "unix:path="+path, os.Geteuid(), &b.queued, func() { signals <- struct{}{} })
			if err != nil {
				t.Fatalf("the answer after it was not read: %v", err)
			}
			if err := b.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// listenAs listens on a Unix socket as a program does, and calls serve for each connection. It
// returns the address.
func listenAs(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "unix:path=" + path
}

// TestLongGreeting checks that a program which sends an authentication without an end is not
// read on.
func TestLongGreeting(t *testing.T) {
	sent := make(chan int, 1)
	address := listenAs(t, func(c net.Conn) {
		defer c.Close()
		all, spaces := 0, bytes.Repeat([]byte(" "), 64<<10)
		for all < 256<<20 {
			n, err := c.Write(spaces)
			if all += n; err != nil {
				break
			}
		}
		sent <- all
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := dialPeer(ctx, address, os.Geteuid(), linkLimit, new(budget), func() {}); !errors.Is(err, errGreeting) {
		t.Errorf("the error is %v", err)
	}
	if n := <-sent; n > 8<<20 { // the socket has a buffer
		t.Errorf("%d bytes were read", n)
	}
}

// TestManyLinks checks that a program which appears under many names gets few connections.
func TestManyLinks(t *testing.T) {
	var open atomic.Int64
	address := listenAs(t, func(c net.Conn) {
		defer c.Close()
		for in := bufio.NewScanner(c); in.Scan(); {
			switch line := in.Text(); {
			case strings.HasSuffix(line, "AUTH"):
				_, _ = c.Write([]byte("REJECTED EXTERNAL\r\n"))
			case line == "BEGIN":
				open.Add(1)
				defer open.Add(-1)
			default:
				_, _ = c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
			}
		}
	})
	var l links
	defer l.close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range 2 * mostLinks {
		name := fmt.Sprintf(":1.%d", i)
		if l.open(ctx, name, address, os.Geteuid(), new(budget)); l.to(name) == nil {
			t.Fatalf("no connection to %s", name)
		}
	}
	for open.Load() > mostLinks {
		select {
		case <-ctx.Done():
			t.Fatalf("%d connections are open", open.Load())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestForeignBus checks that no connection is made to the bus of another user, which a program
// can name, and that the memory of this program stays closed to other processes (PR_SET_DUMPABLE),
// whatever fs.suid_dumpable is.
func TestForeignBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	for p := path; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o777); err != nil { //nolint:gosec // of the test
			t.Fatal(err)
		}
	}
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if before == 1 {
		defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
	}
	const otherUser = 65534
	c, err := dialUnix(t.Context(), path, otherUser)
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, %v", c, err)
	}
	if now, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); now != 0 || err != nil {
		t.Errorf("the memory is open: %d, %v", now, err)
	}
}

// TestNoAddress checks that no element gets an address to which the bus allows no message.
func TestNoAddress(t *testing.T) {
	for _, a := range []address{
		{"", "/a"},
		{"a b", "/a"},
		{":1", "/a"},
		{":1.2\x00", "/a"},
		{"org.example", "/a"},
		{":1.2", nullPath},
		{":1.2", "a"},
		{":1.2", dbus.ObjectPath("/" + strings.Repeat("a", mostPath))},
	} {
		if !a.null() {
			t.Errorf("%q is an element", a)
		}
	}
	if (address{":1.2", "/a"}).null() {
		t.Error(":1.2 has no element /a")
	}
}
