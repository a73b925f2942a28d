package desktops

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/webrtc"
)

// diagnosis is webrtc.Diagnosis on the wire.
type diagnosis struct {
	Verdict   string           `json:"verdict" doc:"One sentence about what works, or what fails for the listed viewers"`
	Remedy    string           `json:"remedy,omitempty" doc:"What to do; omitted if nothing is wrong"`
	Request   diagnosedRequest `json:"request" doc:"How this request reached the server; a viewer in the same browser arrives the same way"`
	UDP       diagnosedUDP     `json:"udp" doc:"Media over UDP"`
	TCP       diagnosedTCP     `json:"tcp" doc:"Media over TCP on the HTTP port"`
	Servers   []diagnosedICE   `json:"iceServers" nullable:"false" doc:"Configured STUN and TURN servers"`
	Announced []string         `json:"addresses" nullable:"false" doc:"Candidate addresses that viewers get, as udp 192.0.2.1:59050"`
	Viewers   []diagnosedPath  `json:"viewers" nullable:"false" doc:"Connected and connecting viewers; view, control and agent tokens get only their own viewers"`
	Failed    []diagnosedPath  `json:"failed" nullable:"false" doc:"Latest viewers that failed to connect or lost their connection, newest first; view, control and agent tokens get only their own viewers"`
}

type diagnosedRequest struct {
	Host      string   `json:"host" doc:"Host and port of the request"`
	Addresses []string `json:"addresses" nullable:"false" doc:"Addresses that this machine resolves the host to"`
	Problem   string   `json:"problem,omitempty" doc:"Why the host could not be resolved"`
	Remote    string   `json:"remote" doc:"Address that the request came from"`
	Proxies   []string `json:"proxyHeaders" nullable:"false" doc:"Headers that an HTTP proxy added"`
}

type diagnosedUDP struct {
	Open      bool     `json:"open"`
	Port      int      `json:"port,omitempty" doc:"Omitted if each viewer has its own port"`
	Range     string   `json:"range,omitempty" doc:"Port range that viewers get their own ports from"`
	Addresses []string `json:"addresses" nullable:"false" doc:"Addresses of this machine"`
	Problem   string   `json:"problem,omitempty" doc:"Why the port is not open"`
}

type diagnosedTCP struct {
	Shared  bool   `json:"shared" doc:"Whether viewers can connect by TCP to the port of this request, or to --media-tcp-port"`
	Port    int    `json:"port,omitempty" doc:"Value of --media-tcp-port"`
	Problem string `json:"problem,omitempty" doc:"Why viewers cannot connect by TCP"`
}

type diagnosedICE struct {
	URL       string  `json:"url"`
	Tried     bool    `json:"tried" doc:"Whether the server was queried"`
	Answered  bool    `json:"answered"`
	Address   string  `json:"address,omitempty" doc:"Public address of the media port, as the server sees it"`
	RoundTrip float64 `json:"roundTripMs,omitempty"`
	Problem   string  `json:"problem,omitempty"`
}

type diagnosedPath struct {
	ID        string           `json:"id"`
	Transport webrtc.Transport `json:"transport" enum:"webrtc,whep,websocket"`
	Remote    string           `json:"remote,omitempty" doc:"Address that the viewer's request came from"`
	State     string           `json:"state" enum:"new,connecting,connected,disconnected,failed,closed,unknown"`
	Since     time.Time        `json:"since"`
	Ended     *time.Time       `json:"ended,omitempty"`
	Local     string           `json:"localAddress,omitempty" doc:"Local address of the selected path, as udp 192.0.2.1:59050"`
	Far       string           `json:"remoteAddress,omitempty" doc:"Remote address of the selected path"`
	Relayed   bool             `json:"relayed" doc:"Whether the path goes through a TURN server"`
	Sent      uint64           `json:"bytesSent"`
	Received  uint64           `json:"bytesReceived"`
	RoundTrip float64          `json:"roundTripMs,omitempty"`
	Offered   int              `json:"addressesOffered" doc:"Number of candidate addresses that the viewer offered"`
	Heard     uint64           `json:"checksReceived" doc:"Number of the viewer's connectivity checks that arrived"`
	Answered  uint64           `json:"checksAnswered" doc:"Number of the server's connectivity checks that the viewer answered"`
}

const aboutDiagnosis = `Checks every hop from the ports of this server to each viewer, and reports in a sentence what works or which hop fails.
The request itself is checked like a viewer's: send it from the browser that shows no picture. The call opens the media port if no
viewer has, and queries STUN servers, which may take two seconds.`

func (a *Area) diagnose(ctx context.Context, in *target) (*rest.Output[diagnosis], error) {
	inst, err := a.fleet.Find(in.Desktop)
	if err != nil {
		return nil, err
	}
	r := rest.RequestIn(ctx)
	q := webrtc.Inquiry{ViewerOptions: a.viewer(r), Proxies: proxyHeaders(r.Fiber)}
	return rest.Reply(wireDiagnosis(inst.Diagnose(ctx, q)), nil)
}

func wireDiagnosis(d webrtc.Diagnosis) diagnosis {
	for _, list := range []*[]string{&d.Request.Addresses, &d.Request.Proxies, &d.UDP.Addresses, &d.Announced} {
		*list = append([]string{}, *list...) // a nil one would be null on the wire
	}
	out := diagnosis{
		Verdict: d.Verdict, Remedy: d.Remedy, Request: diagnosedRequest(d.Request), UDP: diagnosedUDP(d.UDP), TCP: diagnosedTCP(d.TCP),
		Announced: d.Announced, Servers: []diagnosedICE{}, Viewers: wirePaths(d.Viewers), Failed: wirePaths(d.Failed),
	}
	for _, s := range d.Servers {
		out.Servers = append(out.Servers, diagnosedICE{s.URL, s.Tried, s.Answered, s.Address, inMS(s.RoundTrip), s.Problem})
	}
	return out
}

func wirePaths(all []webrtc.ViewerPath) []diagnosedPath {
	list := []diagnosedPath{}
	for _, v := range all {
		out := diagnosedPath{
			ID: v.ID, Transport: v.Transport, Remote: v.Remote, State: v.State, Since: v.Since,
			Local: v.Local, Far: v.Far, Relayed: v.Relayed, Sent: v.Sent, Received: v.Received, RoundTrip: inMS(v.RoundTrip),
			Offered: v.Offered, Heard: v.Heard, Answered: v.Answered,
		}
		if !v.Ended.IsZero() {
			out.Ended = &v.Ended
		}
		list = append(list, out)
	}
	return list
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
