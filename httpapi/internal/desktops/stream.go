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

// streamStatus is the state of a desktop's live view.
type streamStatus struct {
	Active    bool              `json:"active" doc:"Whether viewers can connect without a call of start"`
	ProcessID string            `json:"processId,omitempty" doc:"Process id of an external encoder; the built-in encoder has no process"`
	Codec     webrtc.Codec      `json:"codec,omitempty"`
	Audio     webrtc.AudioCodec `json:"audioCodec,omitempty" doc:"Codec of the sound; omitted if sound is unavailable"`
	FrameRate int               `json:"frameRate,omitempty" doc:"Maximum frame rate"`
	Pictures  float64           `json:"picturesPerSecond,omitempty" doc:"Current bit rate"`
	Bits      int               `json:"bitsPerSecond,omitempty" doc:"Current bit rate"`
	Target    int               `json:"targetBitsPerSecond,omitempty" doc:"Target bit rate of the encoder"`
	Viewers   []streamViewer    `json:"viewers,omitempty" nullable:"false"`
}

// streamViewer is a viewer of the live view.
type streamViewer struct {
	ID        string           `json:"id"`
	Name      string           `json:"name,omitempty"`
	Owner     string           `json:"token,omitempty" doc:"Id of the viewer's token; omitted for the server's own and admin tokens, and for viewers with another token than the request's"`
	Remote    string           `json:"remote,omitempty" doc:"Address of the viewer; other than with the server's own or an admin token, only for viewers that use the request's token"`
	Transport webrtc.Transport `json:"transport" enum:"webrtc,whep,websocket"`
	ViewOnly  bool             `json:"viewOnly"`
	Control   bool             `json:"control"`
	Connected bool             `json:"connected"`
	Since     time.Time        `json:"since"`
	Pictures  uint64           `json:"pictures" doc:"Number of frames sent"`
	Skipped   uint64           `json:"skipped" doc:"Number of frames skipped because the connection was too slow"`
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
	Name    string `query:"name" maxLength:"64" doc:"Name that other viewers see"`
	Role    string `query:"role" enum:"view,control" default:"control" doc:"With view, the viewer cannot get control. With a token of the scope view or agent it never can"`
}

type whepInput struct {
	Desktop     string `path:"desktop" default:"main"`
	Name        string `query:"name" maxLength:"64" doc:"Name that other viewers see"`
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
	add(a, r.Get("getStream", "/stream/status", "Get the status of the live view"), func(ctx context.Context, in *target) (*rest.Output[streamStatus], error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err != nil {
			return nil, err
		}
		return rest.Reply(statusOf(inst.RunningStream(), rest.GrantOf(ctx)), nil)
	})
	add(a, r.Get("diagnoseStream", "/stream/diagnose", "Diagnose the connections of viewers").WithAbout(aboutDiagnosis), a.diagnose)
	stop := r.Post("stopStream", "/stream/stop", "Stop the live view for all viewers")
	stop.Scope, stop.Admin = grants.ScopeSupervise, true
	add(a, stop, func(_ context.Context, in *target) (*rest.Output[streamStatus], error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err == nil {
			err = inst.StopStream()
		}
		return rest.Reply(streamStatus{}, err)
	})
	r.Errors, r.Enter = []int{http.StatusConflict}, a.enterUse()
	start := r.Post("startStream", "/stream/start", "Start the live view").
		WithAbout("The first viewer also starts the live view. Capturing starts with the first viewer.")
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
	registerSignaling(a, r)
	registerWHEP(a, r)
}

// stream returns the live view of a running desktop.
func (a *Area) stream(ctx context.Context, desktopID string) (*webrtc.Streamer, error) {
	inst, err := a.fleet.Find(desktopID)
	if err != nil {
		return nil, err
	}
	return inst.Stream(ctx)
}

const aboutSignaling = `Upgrades to a WebSocket with the signaling protocol of neko 3, for its published clients. The server offers a WebRTC session
with the video of the desktop and, to viewers that may have control, a data channel for input. To other viewers it sends the messages
about the pointer as {"event":"signal/pointer","payload":{"data":BASE64}}.`

const aboutVideo = `Upgrades to a WebSocket that carries the video itself, for networks that block WebRTC. After
{"event":"video/init","payload":{"codec","width","height"}}, which is repeated at each new size, binary messages are frames: a byte
of flags (1: keyframe), 64 bits of microseconds, the frame; or, with flag 128, messages of the data channel. Text messages are
the signaling messages for control, input, clipboard and presence; the client requests a keyframe with
{"event":"video/key"}. There is no sound.`

func registerSignaling(a *Area, r rest.Route) {
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
			o := a.viewer(rest.RequestOf(ctx))
			o.Name, o.ViewOnly = in.Name, o.ViewOnly || in.Role == "view"
			if g := rest.RequestOf(ctx).Grant; g != nil {
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

func registerWHEP(a *Area, r rest.Route) {
	r.Query = true
	play := r.Post("playStream", "/stream/whep", "Watch with a WHEP player").
		WithAbout("The body is the SDP offer, and the response is the SDP answer. The viewer cannot send input. To disconnect, DELETE the URL in the Location header.").
		WithErrors(http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	play.Status, play.Most = http.StatusCreated, webrtc.MaxDescription
	sdp := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	play.Body = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{sdpType: sdp}} // huma adds to the map
	play.More = map[string]*huma.Response{"201": {Description: "The SDP answer", Content: map[string]*huma.MediaType{sdpType: sdp}}}
	add(a, play, a.play)
	leave := r.Delete("endPlayback", "/stream/whep/{id}", "Disconnect a WHEP player").WithAbout("The call may be repeated.")
	leave.Enter = nil
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
	if errors.Is(err, webrtc.ErrTooManyJoins) {
		return nil, tooManyOfOwner.Problem(err.Error()).WithHeader(fiber.HeaderRetryAfter, "1")
	}
	if err != nil {
		return nil, err
	}
	location := strings.TrimSuffix(r.Fiber.Path(), "/") + "/" + played.ID
	if token := r.Query("access_token"); token != "" { // the player has no other way to leave
		location += "?" + url.Values{"access_token": {token}}.Encode()
	}
	return &whepOutput{ContentType: sdpType, Location: location, Link: played.Links(), Body: []byte(played.Answer)}, nil
}

// viewer returns what webrtc has to know of a viewer's request: where it comes from, how it
// reached this server, and what its token allows.
func (a *Area) viewer(r *rest.Request) webrtc.ViewerOptions {
	c := r.Fiber
	o := webrtc.ViewerOptions{
		Host: a.Gate.Host(c), Remote: a.Client(c),
		// Through a proxy only HTTP comes.
		TCP: a.fleet.TCP().Shares(c.Context().Conn()) && len(proxyHeaders(c)) == 0,
	}
	if r.Grant != nil {
		o.Owner, o.Until = r.Grant.ViewersOf(), r.Grant.Context()
		// A viewer counts as a person, from whom no agent takes control.
		o.ViewOnly = r.Grant.Scope == grants.ScopeView || r.Grant.Scope == grants.ScopeAgent
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
