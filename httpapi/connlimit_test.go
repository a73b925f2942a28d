package httpapi

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"
)

// TestConnectionsCountUntilTheyEnd checks that WebSockets, and requests whose
// bodies were not read, count as long as their connections are open.
func TestConnectionsCountUntilTheyEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{also: echo, MaxConnections: 2, MaxConnectionsPerAddress: 2})
	s.client.Transport.(*http.Transport).DisableKeepAlives = true
	full := func() bool {
		a := s.try(t.Context(), call{path: "/livez", anon: true})
		return a.err == nil && a.StatusCode == http.StatusServiceUnavailable
	}
	one, two := s.dial(t, "/v1/test/echo", nil), s.dial(t, "/v1/test/echo", nil)
	for range 3 {
		if !full() {
			t.Fatal("a third connection is let in")
		}
	}
	repeats(t, one, "still here")
	if err := two.WriteMessage(websocket.TextMessage, []byte("bye")); err != nil {
		t.Fatal(err)
	}
	_, _, _ = two.ReadMessage()
	_ = two.Close()
	eventually(t, "room for another one", func() bool { return !full() })
	// What is left unread of a body keeps its connection open for a while.
	long := strings.Repeat("x", drainMost+prefetch)
	_ = s.try(t.Context(), call{method: http.MethodPost, path: "/nothing", body: long})
	repeats(t, one, "still here")
	_ = one.Close()
	eventually(t, "no connection", func() bool {
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		return len(s.limits.open) == 0 && len(s.limits.byAddress) == 0 && len(s.limits.refused) == 0
	})
}

func TestConnectionLimitsOfConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg        Config
		per, total int
		bad        string
	}{
		"given":            {cfg: Config{MaxConnections: 8, MaxConnectionsPerAddress: 3}, total: 8, per: 3},
		"three quarters":   {cfg: Config{MaxConnections: 8}, total: 8, per: 6},
		"one":              {cfg: Config{MaxConnections: 1}, total: 1, per: 1},
		"behind a proxy":   {cfg: Config{MaxConnections: 8, TrustProxy: true}, total: 8, per: 8},
		"negative":         {cfg: Config{MaxConnections: -1}, bad: "negative"},
		"negative per one": {cfg: Config{MaxConnectionsPerAddress: -1}, bad: "negative"},
		"beyond the files": {cfg: Config{MaxConnections: 1 << 30}, bad: "ulimit -n"},
	} {
		cfg := c.cfg
		err := cfg.limitConnections()
		switch {
		case c.bad != "":
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: %v, want an error that says %q", name, err, c.bad)
			}
		case err != nil || cfg.MaxConnections != c.total || cfg.MaxConnectionsPerAddress != c.per:
			t.Errorf("%s: %d and %d, %v, want %d and %d", name, cfg.MaxConnections, cfg.MaxConnectionsPerAddress, err, c.total, c.per)
		}
	}
	var cfg Config
	if err := cfg.limitConnections(); err != nil || cfg.MaxConnections > descriptorLimit()/2 || cfg.MaxConnections < 1 {
		t.Errorf("by default %d connections, of %d files, %v", cfg.MaxConnections, descriptorLimit(), err)
	}
}

// from is a connection that has only a remote address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f *from) RemoteAddr() net.Addr { return f.addr }

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]string{
		"192.0.2.7":        "192.0.2.7/32",
		"::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8::1:2:3":  "2001:db8::/64",
	} {
		if got := addressOf(&from{addr: &net.TCPAddr{IP: net.ParseIP(a)}}).String(); got != want {
			t.Errorf("%s counts as %s, want %s", a, got, want)
		}
	}
	if addressOf(&from{addr: &net.UnixAddr{}}).IsValid() {
		t.Error("a Unix socket has an address")
	}
}
