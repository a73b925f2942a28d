package desktops

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/webrtc"
)

// streamStatus tells about a desktop's live view.
type streamStatus struct {
	Active    bool              `json:"active" doc:"It can be watched without being started"`
	ProcessID string            `json:"processId,omitempty" doc:"Of the encoder, if it is a process of its own; the built-in one is not"`
	Codec     webrtc.Codec      `json:"codec,omitempty"`
	Audio     webrtc.AudioCodec `json:"audioCodec,omitempty" doc:"Of the sound; left out when there can be none"`
	FrameRate int               `json:"frameRate,omitempty" doc:"At most"`
	Pictures  float64           `json:"picturesPerSecond,omitempty" doc:"Lately"`
	Bits      int               `json:"bitsPerSecond,omitempty" doc:"Lately"`
	Target    int               `json:"targetBitsPerSecond,omitempty" doc:"What the encoder keeps to"`
	Viewers   []streamViewer    `json:"viewers,omitempty" nullable:"false"`
}

// streamViewer is a viewer of the live view.
type streamViewer struct {
	ID        string           `json:"id"`
	Name      string           `json:"name,omitempty"`
	Owner     string           `json:"token,omitempty" doc:"Id of the token with which it watches; left out for the server's own and admin tokens, and for viewers of another token than the request's"`
	Remote    string           `json:"remote,omitempty" doc:"Its address; left out for viewers of another token than the request's, unless that is the server's own or an admin token"`
	Transport webrtc.Transport `json:"transport" enum:"webrtc,whep,websocket"`
	ViewOnly  bool             `json:"viewOnly"`
	Control   bool             `json:"control"`
	Connected bool             `json:"connected"`
	Since     time.Time        `json:"since"`
	Pictures  uint64           `json:"pictures" doc:"That were sent"`
	Skipped   uint64           `json:"skipped" doc:"That were not, because the line was too slow"`
	Bytes     uint64           `json:"bytes"`
}

// statusOf returns what a token shows of a stream; nil: no stream runs.
func statusOf(s *webrtc.Streamer, g *grants.Grant) streamStatus {
	if s == nil {
		return streamStatus{}
	}
	st := s.Status()
	out := streamStatus{
		Active: true, ProcessID: st.ProcessID, Codec: st.Codec, Audio: st.Audio, FrameRate: st.FrameRate,
		Pictures: st.PicturesPerSecond, Bits: st.BitsPerSecond, Target: st.Target,
	}
	for _, v := range st.Viewers {
		if !g.Sees(v.Owner) {
			v.Owner, v.Remote = "", ""
		}
		out.Viewers = append(out.Viewers, streamViewer(v))
	}
	return out
}

type watchInput struct {
	Desktop string `path:"desktop" default:"main"`
	Name    string `query:"name" maxLength:"64" doc:"What other viewers see"`
	Role    string `query:"role" enum:"view,control" default:"control" doc:"view: never have control"`
}

type whepInput struct {
	Desktop     string `path:"desktop" default:"main"`
	Name        string `query:"name" maxLength:"64" doc:"What viewers see"`
	ContentType string `header:"Content-Type"`
	RawBody     []byte
}

type whepOutput struct {
	ContentType string   `header:"Content-Type"`
	Location    string   `header:"Location"`
	Link        []string `header:"Link"`
	Body        []byte
}

// leftOutput has no body, and the status 200 that the draft wants.
type leftOutput struct {
	Status int
}

type whepID struct {
	Desktop string `path:"desktop" default:"main"`
	ID      string `path:"id"`
}

func (a *Area) registerStream() {
	r := rest.Route{Tag: "Live view", Other: rest.StreamError, Scope: grants.ScopeView}
	add(a, r.Get("getStream", "/stream/status", "Tell about the live view"), func(ctx context.Context, in *target) (*rest.Output[streamStatus], error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err != nil {
			return nil, err
		}
		return rest.Reply(statusOf(inst.RunningStream(), rest.GrantOf(ctx)), nil)
	})
	add(a, r.Get("diagnoseStream", "/stream/diagnose", "Tell why viewers see nothing, or how they are reached").WithAbout(aboutDiagnosis), a.diagnose)
	stop := r.Post("stopStream", "/stream/stop", "End the live view for all viewers")
	stop.Scope, stop.Admin = grants.ScopeAdmin, true
	add(a, stop, func(_ context.Context, in *target) (*rest.Output[streamStatus], error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err == nil {
			err = inst.StopStream()
		}
		return rest.Reply(streamStatus{}, err)
	})
	r.Errors = []int{http.StatusConflict}
	start := r.Post("startStream", "/stream/start", "Make the live view ready").
		WithAbout("The first viewer also starts it. Nothing is captured before a viewer watches.")
	add(a, start, func(ctx context.Context, in *target) (*rest.Output[streamStatus], error) {
		stream, err := a.stream(ctx, in.Desktop)
		if e, ok := errors.AsType[*fleet.StateError](err); ok && stateProblem(e).Code == runtimeInactive.Code {
			err = rest.ConflictOf("desktop runtime is not active; POST to its start first")
		}
		if err != nil {
			return nil, err
		}
		return rest.Reply(statusOf(stream, rest.GrantOf(ctx)), nil)
	})
	a.registerSignaling(r)
	a.registerWHEP(r)
}

// stream returns the live view of a running desktop.
func (a *Area) stream(ctx context.Context, desktopID string) (*webrtc.Streamer, error) {
	inst, err := a.fleet.Find(desktopID)
	if err != nil {
		return nil, err
	}
	return inst.Stream(ctx)
}

const aboutSignaling = `Upgrades to a WebSocket that speaks the signalling protocol of neko 3, as the published clients do:
the server offers a WebRTC session with the picture of the desktop and a data channel for input.`

const aboutVideo = `Upgrades to a WebSocket that carries the pictures itself, where no WebRTC gets through. After
{"event":"video/init","payload":{"codec","width","height"}}, again at each new size, binary messages are pictures: a byte
of flags (1: a decoder can begin here), 64 bits of microseconds, the frame; or, with flag 128, messages of the data
channel. Text messages are the messages of the signalling about control, input, clipboard and presence; the client asks
for a picture to begin with by {"event":"video/key"}. There is no sound.`

func (a *Area) registerSignaling(r rest.Route) {
	r.Query, r.More = true, map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}}
	r = r.WithErrors(http.StatusBadRequest)
	a.watch(r.Get("connectStream", "/stream/signaling", "Watch and control the desktop").WithAbout(aboutSignaling),
		func(ctx context.Context, stream *webrtc.Streamer, conn signalConn, o webrtc.ViewerOptions) error {
			return stream.ServeSignaling(ctx, conn, o)
		})
	a.watch(r.Get("connectVideo", "/stream/video", "Watch and control the desktop without WebRTC").WithAbout(aboutVideo),
		func(ctx context.Context, stream *webrtc.Streamer, conn signalConn, o webrtc.ViewerOptions) error {
			return stream.ServeVideo(ctx, conn, o)
		})
}

// watch adds a route that makes a viewer's WebSocket of a request, which serve serves.
func (a *Area) watch(r rest.Route, serve func(context.Context, *webrtc.Streamer, signalConn, webrtc.ViewerOptions) error) {
	add(a, r, func(ctx context.Context, in *watchInput) (*rest.SocketOutput, error) {
		stream, err := a.stream(ctx, in.Desktop)
		if err != nil {
			return nil, err
		}
		return &rest.SocketOutput{Body: func(ctx huma.Context) {
			g := rest.RequestOf(ctx).Grant
			o := a.viewer(rest.RequestOf(ctx))
			o.Name, o.ViewOnly = in.Name, in.Role == "view" || g != nil && g.Scope == grants.ScopeView
			if g != nil {
				o.Name = cmp.Or(o.Name, g.Name)
			}
			a.Upgrade(ctx, signalMost, func(ctx context.Context, ws *rest.Socket) {
				if err := serve(ctx, stream, signalConn{ws}, o); err != nil {
					a.cfg.Logger.Debug("viewer", "error", err)
				}
				ws.Finish()
			})
		}}, nil
	})
}

// signalMost is how long a message of a viewer may be: an answer, or a text for
// the clipboard.
const signalMost = 4 << 20

// signalConn is a WebSocket as package webrtc wants it.
type signalConn struct{ ws *rest.Socket }

var errBinary = errors.New("a binary message, where only text is spoken")

// Receive implements webrtc.Conn. The WebSocket's own end ends it.
func (c signalConn) Receive(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { c.ws.EndReceiving(time.Unix(1, 0)) })
	defer stop()
	kind, data, err := c.ws.Receive()
	if err == nil && kind != websocket.TextMessage {
		return nil, errBinary
	}
	return data, err
}

// viewerTime is how long a viewer may take to accept a message before it is disconnected. The
// end of the desktop waits for it.
const viewerTime = 10 * time.Second

// Send implements webrtc.Conn.
func (c signalConn) Send(_ context.Context, text []byte) error {
	return c.ws.SendWithin(viewerTime, websocket.TextMessage, text)
}

// SendBinary implements webrtc.BinaryConn.
func (c signalConn) SendBinary(_ context.Context, m []byte) error {
	return c.ws.SendWithin(viewerTime, websocket.BinaryMessage, m)
}

const sdpType = "application/sdp"

func (a *Area) registerWHEP(r rest.Route) {
	r.Query = true
	play := r.Post("playStream", "/stream/whep", "Watch with a WHEP player").
		WithAbout("The body is the offer. Such a viewer only watches. DELETE what the Location header names to leave.").
		WithErrors(http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	play.Status, play.Most = http.StatusCreated, webrtc.MaxDescription
	sdp := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	play.Body = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{sdpType: sdp}} // huma adds to the map
	play.More = map[string]*huma.Response{"201": {Description: "The answer", Content: map[string]*huma.MediaType{sdpType: sdp}}}
	add(a, play, a.play)
	leave := r.Delete("endPlayback", "/stream/whep/{id}", "Leave, as a WHEP player").WithAbout("A second DELETE is answered like the first.")
	leave.Status, leave.Errors = 0, []int{http.StatusNotFound}
	add(a, leave, func(ctx context.Context, in *whepID) (*leftOutput, error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err != nil {
			return nil, err
		}
		if inst.EndViewer(in.ID, func(v webrtc.ViewerInfo) bool { return rest.GrantOf(ctx).Sees(v.Owner) }) != nil {
			return nil, rest.Missing("viewer", in.ID)
		}
		return &leftOutput{}, nil
	})
}

func (a *Area) play(ctx context.Context, in *whepInput) (*whepOutput, error) {
	if kind, _, _ := strings.Cut(in.ContentType, ";"); !strings.EqualFold(strings.TrimSpace(kind), sdpType) {
		return nil, rest.UnsupportedMedia.Problem("unsupported media type: the offer must come with Content-Type: "+sdpType).
			With("details", map[string]any{"message": "expected Content-Type: " + sdpType})
	}
	stream, err := a.stream(ctx, in.Desktop)
	if err != nil {
		return nil, err
	}
	r := rest.RequestIn(ctx)
	o := a.viewer(r)
	o.Name = in.Name
	played, err := stream.Play(ctx, string(in.RawBody), o)
	if err != nil {
		return nil, err
	}
	location := strings.TrimSuffix(r.Fiber.Path(), "/") + "/" + played.ID
	if token := r.Query("access_token"); token != "" { // the player has no other way to leave
		location += "?" + url.Values{"access_token": {token}}.Encode()
	}
	return &whepOutput{ContentType: sdpType, Location: location, Link: played.Links(), Body: []byte(played.Answer)}, nil
}

// viewer returns what webrtc has to know of a viewer's request: where it comes from, and
// how it reached this server.
func (a *Area) viewer(r *rest.Request) webrtc.ViewerOptions {
	c := r.Fiber
	o := webrtc.ViewerOptions{
		Host: a.Gate.Host(c), Remote: a.Client(c),
		// Through a proxy only HTTP comes.
		TCP: a.fleet.TCP().Shares(c.Context().Conn()) && len(proxyHeaders(c)) == 0,
	}
	if r.Grant != nil {
		o.Owner, o.Until = r.Grant.ViewersOf(), r.Grant.Context()
	}
	return o
}

// proxyHeaders returns the headers of a request that an HTTP proxy has added.
func proxyHeaders(c *fiber.Ctx) []string {
	all := []string{
		fiber.HeaderForwarded, fiber.HeaderVia, fiber.HeaderXForwardedFor,
		fiber.HeaderXForwardedHost, fiber.HeaderXForwardedProto, "X-Real-Ip", "Cf-Ray",
	}
	return slices.DeleteFunc(all, func(name string) bool { return c.Get(name) == "" })
}
