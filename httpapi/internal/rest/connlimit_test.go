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
