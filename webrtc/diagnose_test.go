package webrtc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	n := openNetwork(t, NetworkConfig{TCP: &tcp})
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: n})
	o := ViewerOptions{Host: ln.Addr().String(), TCP: true, Remote: "192.0.2.1:5"}
	d := s.Diagnose(t.Context(), Inquiry{ViewerOptions: o})
	if !strings.Contains(d.Verdict, "no problem was found on the server") || d.Remedy != "" {
		t.Errorf("without viewers: %q, %q", d.Verdict, d.Remedy)
	}
	if !d.UDP.Open || d.UDP.Port != n.port(t) || !slices.Contains(d.UDP.Addresses, "127.0.0.1") || !d.TCP.Shared {
		t.Errorf("ports: %+v, %+v", d.UDP, d.TCP)
	}
	if want := "tcp " + ln.Addr().String(); !slices.Contains(d.Announced, want) {
		t.Errorf("addresses %q, want also %s", d.Announced, want)
	}

	for name, settings := range map[string]func(*pion.SettingEngine){"udp": nil, "tcp": byTCP} {
		c := watchBy(t, s, o, settings)
		c.next("the first one", picture.key)
		until(t, "the path by "+name+" is described", func() bool {
			d = s.Diagnose(t.Context(), Inquiry{ViewerOptions: o})
			v := d.Viewers[0]
			return v.ID == c.id && v.Connected() && v.Sent > 0 && v.Received > 0 && v.RoundTrip > 0 && v.Remote == o.Remote &&
				strings.HasPrefix(v.Local, name+" ") && strings.HasPrefix(v.Far, name+" ") && v.Heard > 0 && v.Answered > 0
		})
		if want := "All 1 viewers are connected: 1 by " + strings.ToUpper(name) + "."; d.Verdict != want {
			t.Errorf("verdict %q, want %q", d.Verdict, want)
		}
		c.leave()
		until(t, "the viewer is gone", func() bool { return len(s.Viewers()) == 0 })
	}
	if d := s.Diagnose(t.Context(), Inquiry{}); len(d.Failed) != 0 {
		t.Errorf("viewers that left are in Failed: %+v", d.Failed)
	}
}

// TestDiagnoseFailure diagnoses a viewer whose packets do not arrive, while it is connecting and
// after it has left.
func TestDiagnoseFailure(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watchBy(t, s, ViewerOptions{Remote: "192.0.2.1:5"}, func(e *pion.SettingEngine) {
		e.SetInterfaceFilter(func(string) bool { return false })
	})
	until(t, "the verdict names the viewer", func() bool {
		d := s.Diagnose(t.Context(), Inquiry{})
		return len(d.Viewers) == 1 && strings.Contains(d.Verdict, "192.0.2.1:5 offered no address")
	})
	c.leave()
	d := s.Diagnose(t.Context(), Inquiry{})
	if len(d.Failed) != 1 || d.Failed[0].ID != c.id || d.Failed[0].Ended.IsZero() || len(d.Viewers) != 0 || d.Remedy == "" {
		t.Errorf("afterwards: %+v", d)
	}
	// Another owner cannot see it.
	other := s.Diagnose(t.Context(), Inquiry{ViewerOptions: ViewerOptions{Owner: "other"}})
	if len(other.Viewers)+len(other.Failed) != 0 || strings.Contains(other.Verdict, "192.0.2.1") {
		t.Errorf("to another owner: %+v", other)
	}
	// The verdict changes when another viewer is connected.
	watch(t, s, ViewerOptions{}).next("the first one", picture.key)
	if d := s.Diagnose(t.Context(), Inquiry{}); !strings.HasPrefix(d.Verdict, "All 1") {
		t.Errorf("verdict %q", d.Verdict)
	}
}

func TestDiagnoseHops(t *testing.T) {
	t.Parallel()
	server := openNetwork(t, NetworkConfig{})
	url := fmt.Sprintf("stun:127.0.0.1:%d", server.port(t))
	for name, c := range map[string]struct {
		cfg     NetworkConfig
		inquiry Inquiry
		want    string // of the verdict
		check   func(Diagnosis) bool
	}{
		"a server that answers": {
			NetworkConfig{ICEServers: []ICEServer{{URLs: []string{url}}}},
			Inquiry{},
			"no problem was found on the server",
			func(d Diagnosis) bool { return d.Servers[0].Answered && d.Servers[0].RoundTrip > 0 },
		},
		"a server that does not": {
			NetworkConfig{ICEServers: []ICEServer{{URLs: []string{"stun:127.0.0.1:9"}}}},
			Inquiry{},
			"stun:127.0.0.1:9 does not answer",
			func(d Diagnosis) bool { return d.Servers[0].Tried && !d.Servers[0].Answered && d.Remedy != "" },
		},
		"a secret": {
			NetworkConfig{ICEServers: []ICEServer{{URLs: []string{"turns:x.invalid"}, Username: "u", Credential: "hush"}}},
			Inquiry{},
			"no problem was found on the server",
			func(d Diagnosis) bool { return !d.Servers[0].Tried },
		},
		"no way at all": {
			NetworkConfig{UDPPort: -1},
			Inquiry{},
			"No viewer can connect",
			func(d Diagnosis) bool {
				return !d.UDP.Open && d.UDP.Problem != "" && strings.Contains(d.Remedy, "--media-udp-port")
			},
		},
		"only TURN": {
			NetworkConfig{UDPPort: -1, ICEServers: []ICEServer{{URLs: []string{"turns:x.invalid"}, Username: "u", Credential: "c"}}},
			Inquiry{},
			"only through the TURN server", nil,
		},
		"only TCP": {
			NetworkConfig{UDPPort: -1, TCP: new(TCP)},
			Inquiry{ViewerOptions: ViewerOptions{Host: "10.0.0.1:2468", TCP: true}},
			"by TCP only",
			func(d Diagnosis) bool { return slices.Equal(d.Announced, []string{"tcp 10.0.0.1:2468"}) },
		},
		"a proxy": {
			NetworkConfig{TCP: new(TCP)},
			Inquiry{Proxies: []string{"Via"}},
			"HTTP proxy (Via)",
			func(d Diagnosis) bool { return !d.TCP.Shared && strings.Contains(d.Remedy, "TURN") },
		},
		"past a proxy": {
			NetworkConfig{TCP: new(TCP), UDPPort: -1, TCPPort: 2468},
			Inquiry{Proxies: []string{"Via"}, ViewerOptions: ViewerOptions{Host: "10.0.0.1"}},
			"by TCP only",
			func(d Diagnosis) bool { return slices.Equal(d.Announced, []string{"tcp 10.0.0.1:2468"}) },
		},
		"an unknown name": {
			NetworkConfig{},
			Inquiry{ViewerOptions: ViewerOptions{Host: "nowhere.invalid:80"}},
			"no problem was found on the server",
			func(d Diagnosis) bool { return strings.Contains(d.Request.Problem, "nowhere.invalid") },
		},
		"a name, for a guest": {
			NetworkConfig{},
			Inquiry{ViewerOptions: ViewerOptions{Host: "localhost.example.com:80", Owner: "guest"}},
			"no problem was found on the server",
			func(d Diagnosis) bool {
				return strings.Contains(d.Request.Problem, "only") && ViewerOptions{Owner: "guest"}.network().NoLookup
			},
		},
		"a range": {
			NetworkConfig{PortMin: uint16(freePorts(t)), PortMax: 65535},
			Inquiry{},
			"no problem was found on the server",
			func(d Diagnosis) bool {
				return d.UDP.Open && d.UDP.Port == 0 && strings.HasSuffix(d.UDP.Range, "-65535")
			},
		},
		"a range without a free port": {
			NetworkConfig{PortMin: uint16(server.port(t)), PortMax: uint16(server.port(t))},
			Inquiry{},
			"No viewer can connect",
			func(d Diagnosis) bool { return !d.UDP.Open && strings.Contains(d.UDP.Problem, "webrtcPortRange") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := NewNetwork(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = n.Close() }()
			d := n.Diagnose(t.Context(), c.inquiry)
			if !strings.Contains(d.Verdict, c.want) || c.check != nil && !c.check(d) {
				t.Errorf("want %q in %+v", c.want, d)
			}
		})
	}
	if d := NoNetwork(errors.New("no luck"), Inquiry{}); !strings.Contains(d.Verdict, "no luck") || d.Remedy == "" {
		t.Errorf("without a network: %+v", d)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	open := Diagnosis{UDP: UDPPath{Open: true, Port: 59050}, TCP: TCPPath{Shared: true}, Request: RequestPath{Host: "desk:2468"}, Announced: []string{"udp 10.0.0.1:59050"}}
	with := func(change func(*Diagnosis)) Diagnosis {
		d := open
		change(&d)
		return d
	}
	old := now.Add(-time.Minute)
	good := ViewerPath{State: "connected", Far: "udp 10.0.0.9:1", Local: "udp 10.0.0.1:59050", Since: old.Add(time.Second)}
	trying := ViewerPath{State: "connecting", Remote: "10.0.0.9:7", Since: old, Offered: 2}
	for name, c := range map[string]struct {
		d               Diagnosis
		verdict, remedy string
	}{
		"no viewer":     {open, "no problem was found on the server", ""},
		"all connected": {with(func(d *Diagnosis) { d.Viewers = []ViewerPath{good, good} }), "All 2 viewers are connected: 2 by UDP.", ""},
		"each its way": {with(func(d *Diagnosis) {
			relayed, tcp, socket := good, good, good
			relayed.Relayed, tcp.Far, socket.Far, socket.Transport = true, "tcp 10.0.0.9:1", "", TransportWebSocket
			d.Viewers = []ViewerPath{relayed, tcp, socket}
		}), "1 through a TURN server, 1 by TCP, 1 over a WebSocket", "Allow UDP port 59050"},
		"one just comes": {with(func(d *Diagnosis) {
			v := trying
			v.Since = now
			d.Viewers = []ViewerPath{good, v}
		}), "All 1 viewers are connected", ""},
		"nothing arrives": {
			with(func(d *Diagnosis) { d.Viewers = []ViewerPath{trying} }),
			"no packet from it arrived at UDP port 59050 or the TCP port of desk:2468.", "docker run -p 59050:59050/udp",
		},
		"nothing arrives through a proxy": {with(func(d *Diagnosis) {
			d.Viewers, d.TCP = []ViewerPath{trying}, TCPPath{Problem: "x"}
		}), "no packet from it arrived at UDP port 59050.", "instead of through an HTTP proxy"},
		"nothing arrives past a proxy": {with(func(d *Diagnosis) {
			d.Viewers, d.TCP = []ViewerPath{trying}, TCPPath{Shared: true, Port: 2468}
		}), "no packet from it arrived at UDP port 59050 or TCP port 2468.", "--announce-ip"},
		"nothing arrives in a range": {with(func(d *Diagnosis) {
			d.Viewers, d.UDP = []ViewerPath{trying}, UDPPath{Open: true, Range: "1-9"}
		}), "the UDP ports 1-9 or", "docker run -p 1-9:1-9/udp"},
		"it is known to be no use": {with(func(d *Diagnosis) {
			d.Viewers, d.Servers = []ViewerPath{trying}, []ServerPath{{URL: "turn:x"}}
		}), "no packet from it arrived", "check that the TURN server relays"},
		"no WebRTC": {with(func(d *Diagnosis) {
			v := trying
			v.Offered = 0
			d.Viewers = []ViewerPath{v}
		}), "its browser does not use WebRTC", "policy"},
		"one way": {with(func(d *Diagnosis) {
			v := trying
			v.Heard = 9
			d.Viewers = []ViewerPath{v}
		}), "does not answer the server's packets", "(from port 59050)"},
		"no agreement": {with(func(d *Diagnosis) {
			v := trying
			v.Heard, v.Answered = 9, 9
			d.Viewers = []ViewerPath{v}
		}), "no path was selected", "Reload"},
		"cut off": {with(func(d *Diagnosis) {
			v := trying
			v.Heard, v.Answered, v.Far, v.Local = 9, 9, "udp a", "udp b"
			d.Failed = []ViewerPath{v}
		}), "from udp a to udp b", "Reload"},
		"one failed, and others came before": {with(func(d *Diagnosis) {
			before := good
			before.Since = old.Add(-time.Second)
			d.Failed, d.Viewers = []ViewerPath{trying}, []ViewerPath{before}
		}), "Others are connected: 1 by UDP.", "Allow UDP"},
		"one failed, and another came since": {with(func(d *Diagnosis) {
			d.Failed, d.Viewers = []ViewerPath{trying}, []ViewerPath{good}
		}), "All 1 viewers", ""},
		"one failed, and fell back": {with(func(d *Diagnosis) {
			v := good
			v.Transport, v.Far = TransportWebSocket, ""
			d.Failed, d.Viewers = []ViewerPath{trying}, []ViewerPath{v}
		}), "no packet from it arrived", "Allow UDP"},
	} {
		verdict, remedy := judge(&c.d, now)
		if !strings.Contains(verdict, c.verdict) || !strings.Contains(remedy, c.remedy) || c.remedy == "" && remedy != "" {
			t.Errorf("%s: %q, %q; want %q, %q", name, verdict, remedy, c.verdict, c.remedy)
		}
		if !strings.HasSuffix(verdict, ".") || remedy != "" && !strings.HasSuffix(remedy, ".") {
			t.Errorf("%s: %q, %q are not sentences", name, verdict, remedy)
		}
	}
}
