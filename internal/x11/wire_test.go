package x11

import (
	"bytes"
	"net"
	"testing"
)

// sink is a connection that records each Write.
type sink struct {
	net.Conn
	writes [][]byte
	err    error
	closed bool
}

func (s *sink) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.writes = append(s.writes, bytes.Clone(b))
	return len(b), nil
}

func (s *sink) Close() error { s.closed = true; return nil }

func TestWireSetup(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cookie []byte
		want   string
	}{
		{nil, "l\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{[]byte("0123456789abcdef"), "l\x00\x0b\x00\x00\x00\x12\x00\x10\x00\x00\x00MIT-MAGIC-COOKIE-1\x00\x000123456789abcdef"},
	} {
		s := &sink{}
		w := &wire{Conn: s, cookie: tt.cookie}
		if n, err := w.Write([]byte("xgb's own")); n != 9 || err != nil {
			t.Fatal(n, err)
		}
		if len(s.writes) != 1 || string(s.writes[0]) != tt.want {
			t.Errorf("setup is %q, want %q", s.writes, tt.want)
		}
	}
}

func TestWireCork(t *testing.T) {
	t.Parallel()
	s := &sink{}
	w := &wire{Conn: s, greeted: true}
	write := func(b string) {
		t.Helper()
		if n, err := w.Write([]byte(b)); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		got := make([]string, len(s.writes))
		for i, b := range s.writes {
			got[i] = string(b)
		}
		if len(got) != len(want) {
			t.Fatalf("writes are %.40q, want %.40q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("write %d is %.40q, want %.40q", i, got[i], want[i])
			}
		}
		s.writes = nil
	}
	write("now")
	check("now")
	w.cork()
	write("a")
	w.cork()
	write("b")
	if err := w.uncork(); err != nil {
		t.Fatal(err)
	}
	write("c")
	check()
	if err := w.uncork(); err != nil {
		t.Fatal(err)
	}
	check("abc")
	w.delay([]byte("late"))
	write("late")
	check()
	write("now")
	check("latenow")
	w.cork()
	write("a")
	write("late")
	if err := w.uncork(); err != nil {
		t.Fatal(err)
	}
	check("alate") // another caller may wait for the reply to a
	w.cork()
	write("before")
	write("\x2b\x00\x01\x00") // GetInputFocus: xgb waits for it
	check("before\x2b\x00\x01\x00")
	large := string(bytes.Repeat([]byte{1}, maxHeld))
	write(large)
	write("x")
	check(large, "x") // no more is held than maxHeld
	if err := w.uncork(); err != nil {
		t.Fatal(err)
	}
	check()
	w.cork()
	write("lost")
	s.err = net.ErrClosed
	if err := w.uncork(); err == nil || !s.closed {
		t.Errorf("uncork on a broken connection: %v, closed: %v", err, s.closed)
	}
}

func TestDisplayNumber(t *testing.T) {
	t.Parallel()
	for display, want := range map[string]int{":0": 0, ":7.0": 7, "unix:12": 12, ":12.3": 12} {
		if got, err := displayNumber(display); got != want || err != nil {
			t.Errorf("displayNumber(%q) = %d, %v, want %d", display, got, err, want)
		}
	}
	for _, display := range []string{"", "7", ":", ":-1", ":x", "host:0", ":0x1", "tcp/host:0"} {
		if n, err := displayNumber(display); err == nil {
			t.Errorf("displayNumber(%q) = %d, want an error", display, n)
		}
	}
}
