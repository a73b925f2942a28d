package rest

import (
	"net"
	"strings"
	"testing"
)

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
		err := cfg.setConnectionLimits()
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
	if err := cfg.setConnectionLimits(); err != nil || cfg.MaxConnections > descriptorLimit()/2 || cfg.MaxConnections < 1 {
		t.Errorf("by default %d connections, of %d files, %v", cfg.MaxConnections, descriptorLimit(), err)
	}
}

// between is a connection that has only addresses.
type between struct {
	net.Conn
	remote, local net.Addr
}

func (b *between) RemoteAddr() net.Addr { return b.remote }
func (b *between) LocalAddr() net.Addr  { return b.local }

func TestAddressOf(t *testing.T) {
	t.Parallel()
	const machine = "127.0.0.0/8"
	for _, c := range []struct{ remote, local, want string }{
		{"192.0.2.7", "192.0.2.1", "192.0.2.7/32"},
		{"::ffff:192.0.2.7", "::ffff:192.0.2.1", "192.0.2.7/32"},
		{"2001:db8::1:2:3", "2001:db8::1", "2001:db8::/64"},
		{"127.0.0.1", "127.0.0.1", machine},
		{"127.1.2.3", "127.0.0.1", machine},
		{"::ffff:127.0.0.2", "::ffff:127.0.0.1", machine},
		{"::1", "::1", machine},
		{"192.0.2.7", "192.0.2.7", machine},
		{"192.0.2.7", "127.0.0.1", machine},
		{"2001:db8::1", "2001:db8::1", machine},
	} {
		conn := &between{remote: &net.TCPAddr{IP: net.ParseIP(c.remote)}, local: &net.TCPAddr{IP: net.ParseIP(c.local)}}
		if got := addressOf(conn).String(); got != c.want {
			t.Errorf("%s to %s counts as %s, want %s", c.remote, c.local, got, c.want)
		}
	}
	if addressOf(&between{remote: &net.UnixAddr{}, local: &net.UnixAddr{}}).IsValid() {
		t.Error("a Unix socket has an address")
	}
}
