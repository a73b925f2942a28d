package quiesce

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestUnread: unread reports unread data of both ends of the display's socket, and of no other
// socket.
func TestUnread(t *testing.T) {
	t.Parallel()
	server, client := connect(t, 70000)
	other, _ := connect(t, 70001)
	d := &Display{Number: 70000, Done: make(chan struct{})}
	p := d.watch(os.Getpid())
	defer p.close()
	if p.diag == nil {
		t.Skip("the kernel does not describe sockets")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []net.Conn{other, server} {
		if p.unread() {
			t.Fatal("there is something to read before the display has sent anything")
		}
		if err := p.waitRead(ended); err != nil {
			t.Fatalf("waitRead with nothing to read: %v", err)
		}
		if _, err := c.Write([]byte("event")); err != nil {
			t.Fatal(err)
		}
	}
	if !p.unread() {
		t.Error("the display's event does not count")
	}
	if err := p.waitRead(ended); !errors.Is(err, ErrNotDrained) {
		t.Errorf("waitRead of an event that is not read: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- p.waitRead(t.Context()) }()
	if _, err := client.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("waitRead of an event that was read: %v", err)
	}
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if !p.unread() {
		t.Error("a request that the display has not read does not count")
	}
	if _, err := server.Read(make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	if p.unread() {
		t.Error("everything was read")
	}
}

// TestManyDescriptors: a socket counts once, whatever the number of its descriptors, and
// descriptors beyond the limit are not examined.
func TestManyDescriptors(t *testing.T) {
	t.Parallel()
	file := func(c net.Conn) *os.File {
		t.Helper()
		f, err := c.(*net.UnixConn).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	_, first := connect(t, 70002)
	_, late := connect(t, 70002)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd.ExtraFiles = append(slices.Repeat([]*os.File{file(first)}, maxDescriptors), file(late))
	if err := cmd.Start(); err != nil {
		t.Skip(err) // fewer open files are allowed
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	p := (&Display{Number: 70002}).watch(cmd.Process.Pid)
	defer p.close()
	if p.diag == nil {
		t.Skip("the kernel does not describe sockets")
	}
	if len(p.sockets) != 2 {
		t.Errorf("%d sockets, want the two ends of one connection", len(p.sockets))
	}
}

// connect connects to a listener with the name of a display's socket.
func connect(t *testing.T, number int) (server, client net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".X11-unix", "X"+strconv.Itoa(number))
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if client, err = net.Dial("unix", path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server, client
}
