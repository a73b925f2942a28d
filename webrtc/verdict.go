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
		return viewer + " told no address of its own, and no packet of it arrived: its browser does not use WebRTC.",
			"Check whether a policy or an extension of that browser forbids WebRTC, or use a page that shows the pictures over its WebSocket."
	case v.Heard == 0:
		return viewer + " is not connected: no packet of it arrived, " + d.doors() + ".", d.openDoors()
	case v.Answered == 0:
		return viewer + " is not connected: its packets arrive here, but it answers none of ours.",
			"Let UDP packets out of this machine" + d.fromPort() + ", or use a TURN server (--ice-server turn:HOST:PORT,USER,CREDENTIAL)."
	case v.Local == "":
		return viewer + " is not connected: packets arrive both ways, but no way was agreed on.",
			"Reload the page. If that does not help, its browser's chrome://webrtc-internals or about:webrtc tells more."
	}
	return fmt.Sprintf("%s was connected from %s to %s, but that connection ended or could not be encrypted.", viewer, v.Far, v.Local),
		"Reload the page. If it happens again, something on the way drops or alters packets after a while: use another way (TCP, or a TURN server)."
}

// doors lists the ports at which this program waits for packets of viewers.
func (d *Diagnosis) doors() string {
	var all []string
	switch {
	case d.UDP.Open && d.UDP.Range != "":
		all = append(all, "neither at the UDP ports "+d.UDP.Range)
	case d.UDP.Open:
		all = append(all, fmt.Sprintf("neither at UDP port %d", d.UDP.Port))
	}
	switch {
	case d.TCP.Port != 0:
		all = append(all, fmt.Sprintf("at TCP port %d", d.TCP.Port))
	case d.TCP.Shared:
		all = append(all, "at the TCP port of "+d.Request.Host)
	}
	switch len(all) {
	case 0:
		return "because no port is open for it"
	case 1:
		return strings.TrimPrefix(all[0], "neither ")
	}
	return strings.Join(all, " nor ")
}

func (d *Diagnosis) fromPort() string {
	if d.UDP.Port == 0 {
		return ""
	}
	return fmt.Sprintf(" (from port %d)", d.UDP.Port)
}

func (d *Diagnosis) openDoors() string {
	const turn = "have both sides meet at a TURN server (--ice-server turn:HOST:PORT,USER,CREDENTIAL)"
	var ways []string
	if port := d.ports(); d.UDP.Open {
		ways = append(ways,
			fmt.Sprintf("let UDP port %[1]s in (docker run -p %[1]s:%[1]s/udp; a firewall's rule)", port),
			"tell viewers the address under which this machine is known outside (--announce-ip ADDRESS)")
	} else {
		ways = append(ways, "give media a UDP port (--media-udp-port)")
	}
	if !d.TCP.Shared {
		ways = append(ways, "open the page at this server's own port instead of through an HTTP proxy, or publish that port beside the proxy (--media-tcp-port)")
	}
	if d.relays() {
		ways = append(ways, "see that the TURN server relays")
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
			return "Over a WebSocket pictures come late when the line is slow. " + d.openDoors()
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
			name = "somehow"
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
				"Check whether that server runs and UDP packets may leave this machine, or name another one (--ice-server)."
		}
	}
	switch {
	case len(d.Told) == 0 && d.relays():
		return "No viewer is connected; viewers can come only through the TURN server.", ""
	case len(d.Told) == 0:
		return "Nobody can watch: there is no address to tell viewers, because the UDP port is not open (" + d.UDP.Problem +
			"), and the TCP port does not accept viewers (" + d.TCP.Problem + ").", d.openDoors()
	case len(d.Request.Proxies) > 0 && !d.TCP.Shared && !d.relays():
		return fmt.Sprintf("No viewer is connected; the request came through an HTTP proxy (%s), which passes no media, so that viewers need UDP port %s.",
				strings.Join(d.Request.Proxies, ", "), d.ports()),
			"If viewers do not connect: " + d.openDoors()
	case !d.UDP.Open:
		return "No viewer is connected; viewers can come by TCP only, because the UDP port is not open (" + d.UDP.Problem + ").", ""
	}
	return "No viewer is connected; no problem was found here. Viewers try " + strings.Join(d.Told, ", ") + ".", ""
}
