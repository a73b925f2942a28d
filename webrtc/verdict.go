package webrtc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// judge returns a sentence about what works or fails, and what to do about it.
func judge(d *Diagnosis, now time.Time) (verdict, remedy string) {
	connected := slices.DeleteFunc(slices.Clone(d.Viewers), func(v ViewerPath) bool { return !v.Connected() })
	if v := d.worst(now); v != nil {
		verdict, remedy = d.judgeFailure(v)
		if len(connected) > 0 {
			verdict += fmt.Sprintf(" Others are connected: %s.", ways(connected))
		}
		return verdict, remedy
	}
	if len(connected) > 0 {
		return fmt.Sprintf("All %d viewers are connected: %s.", len(connected), ways(connected)), d.slowRemedy(connected)
	}
	return d.judgeProspects()
}

// connectTime is how long a viewer may take to connect.
const connectTime = 3 * time.Second

// worst returns the viewer that best shows what is wrong: a viewer that has been connecting
// for too long, or the last viewer that failed if no other one has connected since.
func (d *Diagnosis) worst(now time.Time) *ViewerPath {
	for i, v := range d.Viewers {
		if !v.Connected() && now.Sub(v.Since) > connectTime {
			return &d.Viewers[i]
		}
	}
	if len(d.Failed) == 0 {
		return nil
	}
	last := &d.Failed[0]
	for _, v := range d.Viewers {
		// WebSockets get through where nothing else does.
		if v.Connected() && v.Transport != TransportWebSocket && v.Since.After(last.Since) {
			return nil
		}
	}
	return last
}

func (d *Diagnosis) judgeFailure(v *ViewerPath) (verdict, remedy string) {
	viewer := "A viewer at " + cmp.Or(v.Remote, "an unknown address")
	switch {
	case v.Heard == 0 && v.Offered == 0:
		return viewer + " offered no address, and no packet from it arrived: its browser does not use WebRTC.",
			"Check whether a policy or an extension of the browser blocks WebRTC, or use a page that shows the video over a WebSocket."
	case v.Heard == 0:
		return viewer + " is not connected: no packet from it arrived" + d.openPorts() + ".", d.waysIn()
	case v.Answered == 0:
		return viewer + " is not connected: its packets arrive, but it does not answer the server's packets.",
			"Allow outgoing UDP packets" + d.fromPort() + ", or use a TURN server (--ice-server turn:HOST:PORT,USER,CREDENTIAL)."
	case v.Local == "":
		return viewer + " is not connected: packets arrive in both directions, but no path was selected.",
			"Reload the page. If that does not help, see chrome://webrtc-internals or about:webrtc in its browser."
	}
	return fmt.Sprintf("%s was connected from %s to %s, but the connection ended or could not be encrypted.", viewer, v.Far, v.Local),
		"Reload the page. If it happens again, the network drops or alters packets: use TCP or a TURN server."
}

// openPorts lists the ports that accept packets of viewers, as the end of a sentence.
func (d *Diagnosis) openPorts() string {
	var all []string
	switch {
	case d.UDP.Open && d.UDP.Range != "":
		all = append(all, "the UDP ports "+d.UDP.Range)
	case d.UDP.Open:
		all = append(all, fmt.Sprintf("UDP port %d", d.UDP.Port))
	}
	switch {
	case d.TCP.Port != 0:
		all = append(all, fmt.Sprintf("TCP port %d", d.TCP.Port))
	case d.TCP.Shared:
		all = append(all, "the TCP port of "+d.Request.Host)
	}
	if len(all) == 0 {
		return ", because no port is open for it"
	}
	return " at " + strings.Join(all, " or ")
}

func (d *Diagnosis) fromPort() string {
	if d.UDP.Port == 0 {
		return ""
	}
	return fmt.Sprintf(" (from port %d)", d.UDP.Port)
}

// waysIn returns what can make viewers connect, as one sentence.
func (d *Diagnosis) waysIn() string {
	const turn = "use a TURN server (--ice-server turn:HOST:PORT,USER,CREDENTIAL)"
	var ways []string
	if port := d.ports(); d.UDP.Open {
		ways = append(ways,
			fmt.Sprintf("allow UDP port %[1]s (docker run -p %[1]s:%[1]s/udp; a firewall rule)", port),
			"announce the public address of this machine (--announce-ip ADDRESS)")
	} else {
		ways = append(ways, "open a UDP port for media (--media-udp-port)")
	}
	if !d.TCP.Shared {
		ways = append(ways, "open the page at this server's own port instead of through an HTTP proxy, or publish a TCP port that bypasses the proxy (--media-tcp-port)")
	}
	if d.relays() {
		ways = append(ways, "check that the TURN server relays packets")
	} else {
		ways = append(ways, turn)
	}
	text := strings.Join(ways[:len(ways)-1], "; or ") + "; or " + ways[len(ways)-1] + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

func (d *Diagnosis) ports() string {
	if d.UDP.Range != "" {
		return d.UDP.Range
	}
	return fmt.Sprint(d.UDP.Port)
}

func (d *Diagnosis) relays() bool {
	return slices.ContainsFunc(d.Servers, func(s ServerPath) bool { return strings.HasPrefix(s.URL, "turn") })
}

// slowRemedy returns how viewers with a WebSocket can connect by WebRTC.
func (d *Diagnosis) slowRemedy(connected []ViewerPath) string {
	for _, v := range connected {
		if v.Transport == TransportWebSocket {
			return "Over a WebSocket, video is delayed when the connection is slow. " + d.waysIn()
		}
	}
	return ""
}

// ways lists the kinds of paths, with the number of viewers of each.
func ways(viewers []ViewerPath) string {
	var names []string
	count := map[string]int{}
	for _, v := range viewers {
		network, _, _ := strings.Cut(v.Far, " ")
		name := "by " + strings.ToUpper(network)
		switch {
		case v.Relayed:
			name = "through a TURN server"
		case v.Transport == TransportWebSocket:
			name = "over a WebSocket"
		case v.Far == "":
			name = "on an unknown path"
		}
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", count[name], name)
	}
	return strings.Join(names, ", ")
}

func (d *Diagnosis) judgeProspects() (verdict, remedy string) {
	for _, s := range d.Servers {
		if s.Tried && !s.Answered {
			return fmt.Sprintf("No viewer is connected, and %s does not answer: %s.", s.URL, s.Problem),
				"Check that the server runs and that UDP packets can leave this machine, or configure another server (--ice-server)."
		}
	}
	switch {
	case len(d.Announced) == 0 && d.relays():
		return "No viewer is connected; viewers can connect only through the TURN server.", ""
	case len(d.Announced) == 0:
		return "No viewer can connect: there is no address for viewers, because the UDP port is not open (" + d.UDP.Problem +
			"), and the TCP port does not accept viewers (" + d.TCP.Problem + ").", d.waysIn()
	case len(d.Request.Proxies) > 0 && !d.TCP.Shared && !d.relays():
		return fmt.Sprintf("No viewer is connected; the request came through an HTTP proxy (%s), which does not forward media, so viewers need UDP port %s.",
				strings.Join(d.Request.Proxies, ", "), d.ports()),
			"If viewers do not connect: " + d.waysIn()
	case !d.UDP.Open:
		return "No viewer is connected; viewers can connect by TCP only, because the UDP port is not open (" + d.UDP.Problem + ").", ""
	}
	return "No viewer is connected; no problem was found on the server. Viewers try " + strings.Join(d.Announced, ", ") + ".", ""
}
