package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pion/stun/v4"
)

// serve answers HTTP requests on a port that is shared with viewers, until the
// test ends.
func serve(t *testing.T, tcp *TCP, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "hello %s %s", r.URL.Path, body)
	}))
	_ = srv.Listener.Close()
	srv.Listener, srv.Config.ReadHeaderTimeout = tcp.Share(ln), time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	return ln
}

func get(t *testing.T, ln net.Listener, path string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + ln.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestTCPOnlyWhereShared checks that viewers behind an HTTP proxy, or of a server that does not
// share its port, get no TCP address.
func TestTCPOnlyWhereShared(t *testing.T) {
	t.Parallel()
	var tcp TCP
	for name, c := range map[string]struct {
		cfg     Config
		options Options
	}{
		"the viewer came otherwise": {Config{TCP: &tcp}, Options{Host: "127.0.0.1:2468"}},
		"the network has no TCP":    {Config{}, Options{Host: "127.0.0.1:2468", TCP: true}},
	} {
		if got := open(t, c.cfg).link(t, c.options).reach().tcp(); got != nil {
			t.Errorf("%s, but the viewer gets %v", name, got)
		}
	}
}

// binding returns the first message of an agent, in its frame.
func binding(t testing.TB, user string) []byte {
	t.Helper()
	m, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername(user), stun.NewShortTermIntegrity("secret"), stun.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	return framed(m.Raw)
}

func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// TestStrangersOnSharedPort checks that connections that begin like a viewer's but are not reach
// the HTTP server unchanged, or are closed.
func TestStrangersOnSharedPort(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	good := binding(t, "unknown:else")
	plain, err := stun.Build(stun.TransactionID, stun.BindingRequest)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for name, c := range map[string]struct {
		send []byte
		want string // of the answer
	}{
		"HTTP":                      {[]byte("GET /x HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 OK"},
		"one byte that may be both": {[]byte{0}, ""},
		"no request":                {framed([]byte("\x01\x01..................")), "HTTP/1.1 400 Bad Request"},
		"a wrong length inside":     {flip(5, 1), "HTTP/1.1 400 Bad Request"},
		"no magic cookie":           {flip(6, 0), "HTTP/1.1 400 Bad Request"},
		"a short frame":             {[]byte("\x00\x04abcd\r\n\r\n"), "HTTP/1.1 400 Bad Request"},
		"an empty frame":            {[]byte("\x00\x00\r\n\r\n"), "HTTP/1.1 400 Bad Request"},
		"no user":                   {framed(plain.Raw), "HTTP/1.1 400 Bad Request"},
		"a user that is not there":  {good, ""},
		"half a message":            {good[:len(good)-1], ""},
		"TLS":                       {[]byte("\x16\x03\x01\x00\x05hello\r\n\r\n"), "HTTP/1.1 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write(c.send); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			if c.want != "" && c.want != "HTTP/1.0 200 OK" {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			got, err := io.ReadAll(conn)
			if err != nil && !strings.Contains(err.Error(), "reset by peer") {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(string(got), "\r\n"); first != c.want {
				t.Errorf("answered %q, want %q", first, c.want)
			}
		})
	}
}

// TestSlowStrangers checks that a client that sends nothing, or a byte a second, does not delay
// others, and that the server's deadline closes its connection.
func TestSlowStrangers(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	var slow []net.Conn
	for i := range 50 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			if _, err := conn.Write([]byte{0, 100}); err != nil {
				t.Fatal(err)
			}
		}
		slow = append(slow, conn)
	}
	if got := get(t, ln, "/"); got != "hello / " {
		t.Errorf("answered %q", got)
	}
	for _, conn := range slow {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Fatal("a connection that sends no request is still open")
		}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// TestSharedBytes checks that a request that is sent byte by byte arrives complete.
func TestSharedBytes(t *testing.T) {
	t.Parallel()
	var tcp TCP
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := tcp.Share(inner)
	defer ln.Close()
	for _, sent := range []string{"GET / HTTP/1.1\r\n", "\x00", "\x00\x14", "\x00\x14GET", "\x01\x00\x00\x01\x00\x00", "\x01\xff" + strings.Repeat("x", 600)} {
		for _, size := range []int{1, 3, 4096} {
			conn, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			far, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if !tcp.Shares(far) || new(TCP).Shares(far) || tcp.Shares(conn) {
				t.Error("Shares is wrong")
			}
			go func() {
				for i := range sent {
					_, _ = conn.Write([]byte{sent[i]})
				}
				_ = conn.Close()
			}()
			var got []byte
			buf := make([]byte, size)
			for {
				n, err := far.Read(buf)
				got = append(got, buf[:n]...)
				if err != nil {
					break
				}
			}
			// Text that could have become a viewer's first message until its end is not a
			// request.
			if want := sent; string(got) != want && (string(got) != "" || len(sent) > 2) {
				t.Errorf("read %q of %q", got, want)
			}
			_ = far.Close()
		}
	}
}

// TestHandOver checks that the server cannot use the connection of a viewer.
func TestHandOver(t *testing.T) {
	t.Parallel()
	var tcp TCP
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := tcp.Share(inner)
	defer ln.Close()
	packets, err := tcpMux{&tcp, new(bounds)}.GetConnByUfrag("me", false, net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packets.Close() }()
	if _, err := (tcpMux{&tcp, new(bounds)}).GetConnByUfrag("me", false, net.IPv4(127, 0, 0, 2)); !errors.Is(err, errTCPTaken) {
		t.Errorf("a second candidate: %v", err)
	}
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first := binding(t, "me:you")
	if _, err := conn.Write(append(bytes.Clone(first), framed([]byte("second"))...)); err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(make([]byte, 100)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("the server reads %d bytes, %v", n, err)
	}
	for name, f := range map[string]func() error{
		"Write":       func() error { _, err := far.Write([]byte("x")); return err },
		"SetDeadline": func() error { return far.SetDeadline(time.Unix(1, 0)) },
		"CloseWrite":  far.(*sharedConn).CloseWrite,
	} {
		if err := f(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want net.ErrClosed", name, err)
		}
	}
	if err := far.Close(); err != nil {
		t.Error(err)
	}
	buf := make([]byte, maxPacket)
	for _, want := range []string{string(first[framing:]), "second"} {
		n, from, err := packets.ReadFrom(buf)
		if err != nil || string(buf[:n]) != want || from.String() != conn.LocalAddr().String() {
			t.Fatalf("read %q from %v, %v; want %q", buf[:n], from, err, want)
		}
		if _, err := packets.WriteTo([]byte("reply"), from); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("..reply"))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "\x00\x05reply" {
			t.Fatalf("the viewer got %q, %v", got, err)
		}
	}
	// A frame of an impossible size ends the connection, not the viewer.
	if _, err := conn.Write([]byte{0xff, 0xff, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	until(t, "writing fails", func() bool {
		_, err := packets.WriteTo([]byte("x"), conn.LocalAddr())
		return errors.Is(err, net.ErrClosed)
	})
}

// TestStalledTCP checks that writes to a viewer that reads nothing block for a while and then
// fail, and that the queue is bounded.
func TestStalledTCP(t *testing.T) {
	t.Parallel()
	var tcp TCP
	p, err := tcpMux{&tcp, new(bounds)}.GetConnByUfrag("me", false, net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = far.(*net.TCPConn).SetWriteBuffer(16 << 10)
	if !tcp.assign(far, "me", nil) {
		t.Fatal("the connection is not taken")
	}
	packet := append([]byte{0x80}, make([]byte, 1199)...)
	begun, longest := time.Now(), time.Duration(0)
	for time.Since(begun) < tcpStalled+time.Second {
		one := time.Now()
		if _, err := p.WriteTo(packet, conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(one))
		if longest > tcpStalled/2 {
			break
		}
	}
	if longest < tcpStalled/2 || longest > 2*tcpStalled {
		t.Errorf("the longest write took %v; want about %v", longest, tcpStalled)
	}
	// Packets that keep the connection alive and packets of data channels do not block.
	for name, packet := range map[string][]byte{"checks": binding(t, "a:b")[framing:], "packets of DTLS": append([]byte{23}, make([]byte, 199)...)} {
		one := time.Now()
		for range 100 {
			if _, err := p.WriteTo(packet, conn.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(one); d > tcpStalled/2 {
			t.Errorf("a hundred %s took %v", name, d)
		}
	}
	closed := time.Now()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(closed); d > time.Second {
		t.Errorf("Close took %v", d)
	}
	if _, err := p.WriteTo(packet, conn.LocalAddr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestManyTCPConnections checks the bound of a viewer's connections.
func TestManyTCPConnections(t *testing.T) {
	t.Parallel()
	var tcp TCP
	p, err := tcpMux{&tcp, new(bounds)}.GetConnByUfrag("me", false, net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for i := range 2 * tcpConnections {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		far, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if got, want := tcp.assign(far, "me", nil), i < tcpConnections; got != want {
			t.Errorf("connection %d is taken: %v, want %v", i, got, want)
		}
	}
}

func FuzzFirstMessage(f *testing.F) {
	f.Add(binding(f, "a:b"))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte{0, 20, 0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42})
	f.Fuzz(func(t *testing.T, b []byte) {
		name, enough, maybe := firstMessage(b)
		if enough && !maybe || name != "" && !enough {
			t.Errorf("%q: %q, %v, %v", b, name, enough, maybe)
		}
		if len(b) > mostFirst+framing && maybe && !enough {
			t.Errorf("%q: firstMessage wants more bytes", b)
		}
		if maybe && len(b) > 0 && b[0] > 1 {
			t.Errorf("%q is taken for a viewer", b)
		}
		// More bytes cannot change that.
		if !maybe {
			if _, _, again := firstMessage(append(bytes.Clone(b), 0)); again {
				t.Errorf("%q becomes a viewer with another byte", b)
			}
		}
	})
}

// BenchmarkTCP measures the cost of one packet of video by TCP, for both ends.
func BenchmarkTCP(b *testing.B) {
	var tcp TCP
	p, err := tcpMux{&tcp, new(bounds)}.GetConnByUfrag("me", false, net.IPv4(127, 0, 0, 1))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	if !tcp.assign(far, "me", nil) {
		b.Fatal("the connection is not taken")
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, conn)
	}()
	packet := append([]byte{0x80}, make([]byte, 1199)...)
	to := endOf(conn.LocalAddr())
	b.SetBytes(int64(len(packet)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.(*tcpPackets).WriteToAddrPort(packet, to); err != nil {
			b.Fatal(err)
		}
	}
	_ = conn.Close()
	<-read
}
