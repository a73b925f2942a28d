package desktops

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/webrtc"
)

// diagnosis is webrtc.Diagnosis on the wire.
type diagnosis struct {
	Verdict string           `json:"verdict" doc:"In one sentence, what works or where it ends, for the viewers that follow"`
	Remedy  string           `json:"remedy,omitempty" doc:"What can be done about it; absent: nothing has to"`
	Request diagnosedRequest `json:"request" doc:"How this request came, and so would a viewer of the same browser"`
	UDP     diagnosedUDP     `json:"udp" doc:"The port for media"`
	TCP     diagnosedTCP     `json:"tcp" doc:"The port of HTTP, as one for media"`
	Servers []diagnosedICE   `json:"iceServers" nullable:"false" doc:"The STUN and TURN servers that were configured"`
	Told    []string         `json:"addresses" nullable:"false" doc:"That a viewer is told to try, as udp 192.0.2.1:59050"`
	Viewers []diagnosedPath  `json:"viewers" nullable:"false" doc:"The viewers that watch or are connecting; a view, control or agent token gets its own only"`
	Failed  []diagnosedPath  `json:"failed" nullable:"false" doc:"The latest viewers that failed to connect or were cut off, latest first; a view, control or agent token gets its own only"`
}

type diagnosedRequest struct {
	Host      string   `json:"host" doc:"By which host and port"`
	Addresses []string `json:"addresses" nullable:"false" doc:"What the host stands for, here"`
	Problem   string   `json:"problem,omitempty" doc:"Why that is not known"`
	Remote    string   `json:"remote" doc:"From where"`
	Proxies   []string `json:"proxyHeaders" nullable:"false" doc:"Headers that an HTTP proxy has added"`
}

type diagnosedUDP struct {
	Open      bool     `json:"open"`
	Port      int      `json:"port,omitempty" doc:"Absent: each viewer has its own"`
	Range     string   `json:"range,omitempty" doc:"From which viewers have their own"`
	Addresses []string `json:"addresses" nullable:"false" doc:"Of this machine"`
	Problem   string   `json:"problem,omitempty" doc:"Why it is not open"`
}

type diagnosedTCP struct {
	Shared  bool   `json:"shared" doc:"Viewers may connect to the port by which this request came, or to --media-tcp-port"`
	Port    int    `json:"port,omitempty" doc:"The number given as --media-tcp-port"`
	Problem string `json:"problem,omitempty" doc:"Why not"`
}

type diagnosedICE struct {
	URL       string  `json:"url"`
	Tried     bool    `json:"tried" doc:"Not all can be"`
	Answered  bool    `json:"answered"`
	Address   string  `json:"address,omitempty" doc:"As which it sees the port for media"`
	RoundTrip float64 `json:"roundTripMs,omitempty"`
	Problem   string  `json:"problem,omitempty"`
}

type diagnosedPath struct {
	ID        string           `json:"id"`
	Transport webrtc.Transport `json:"transport" enum:"webrtc,whep,websocket"`
	Remote    string           `json:"remote,omitempty" doc:"From where its request came"`
	State     string           `json:"state" enum:"new,connecting,connected,disconnected,failed,closed,unknown"`
	Since     time.Time        `json:"since"`
	Ended     *time.Time       `json:"ended,omitempty"`
	Local     string           `json:"localAddress,omitempty" doc:"Of the way that is used, as udp 192.0.2.1:59050"`
	Far       string           `json:"remoteAddress,omitempty" doc:"Of the way that is used"`
	Relayed   bool             `json:"relayed" doc:"A TURN server is between them"`
	Sent      uint64           `json:"bytesSent"`
	Received  uint64           `json:"bytesReceived"`
	RoundTrip float64          `json:"roundTripMs,omitempty"`
	Offered   int              `json:"addressesOffered" doc:"How many addresses the viewer told"`
	Heard     uint64           `json:"checksReceived" doc:"How many of its connectivity checks arrived"`
	Answered  uint64           `json:"checksAnswered" doc:"How many of the server's it answered"`
}

const aboutDiagnosis = `Looks at every hop of the way that pictures take, from the ports of this server to each viewer, and says in
a sentence what works or where it ends. The request stands for a viewer's, so that it is best sent from the browser that
sees nothing. It opens the port for media, if no viewer has yet, and asks STUN servers, which may take two seconds.`

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
	for _, list := range []*[]string{&d.Request.Addresses, &d.Request.Proxies, &d.UDP.Addresses, &d.Told} {
		*list = append([]string{}, *list...) // a nil one would be null on the wire
	}
	out := diagnosis{
		Verdict: d.Verdict, Remedy: d.Remedy, Request: diagnosedRequest(d.Request), UDP: diagnosedUDP(d.UDP), TCP: diagnosedTCP(d.TCP),
		Told: d.Told, Servers: []diagnosedICE{}, Viewers: wirePaths(d.Viewers), Failed: wirePaths(d.Failed),
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
