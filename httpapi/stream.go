package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

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

// streamViewer is somebody who watches.
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

type streamOutput struct{ Body streamStatus }

// statusOf describes a stream to a token; nil: no stream runs.
func statusOf(s *webrtc.Streamer, g *grants.Grant) *streamOutput {
	if s == nil {
		return &streamOutput{}
	}
	st := s.Status()
	out := &streamOutput{streamStatus{
		Active: true, ProcessID: st.ProcessID, Codec: st.Codec, Audio: st.Audio, FrameRate: st.FrameRate, Pictures: st.PicturesPerSecond, Bits: st.BitsPerSecond, Target: st.Target,
	}}
	for _, v := range st.Viewers {
		if !g.Sees(v.Owner) {
			v.Owner, v.Remote = "", ""
		}
		out.Body.Viewers = append(out.Body.Viewers, streamViewer(v))
	}
	return out
}

type watchInput struct {
	Name string `query:"name" maxLength:"64" doc:"What other viewers see"`
	Role string `query:"role" enum:"view,control" default:"control" doc:"view: never have control"`
}

type whepInput struct {
	Name        string `query:"name" maxLength:"64" doc:"What viewers see"`
	ContentType string `header:"Content-Type"`
	RawBody     []byte
	request     *rest.Request
}

// Resolve keeps the request.
func (in *whepInput) Resolve(ctx huma.Context) []error {
	in.request = rest.RequestOf(ctx)
	return nil
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
	ID string `path:"id"`
}

func (s *Server) registerStream() {
	r := rest.Route{Method: http.MethodGet, Tag: "Live view", Other: rest.StreamError}
	status := r
	status.ID, status.Path, status.Summary = "getStream", "/stream/status", "Tell about the live view"
	onInstance(s, status, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*streamOutput, error) {
		return statusOf(inst.RunningStream(), rest.GrantOf(ctx)), nil
	})
	s.registerDiagnosis(r)
	r.Errors = []int{http.StatusConflict}
	start := r
	start.ID, start.Method, start.Path, start.Summary = "startStream", http.MethodPost, "/stream/start", "Make the live view ready"
	start.Scope = grants.ScopeView
	start.About = "The first viewer does that, too. Nothing is captured before somebody watches."
	onInstance(s, start, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*streamOutput, error) {
		stream, err := inst.Stream(ctx)
		if e, ok := errors.AsType[*fleet.StateError](err); ok && stateProblem(e).Code == rest.RuntimeInactive.Code {
			return nil, rest.ConflictOf("desktop runtime is not active; POST to its start first")
		}
		if err != nil {
			return nil, err
		}
		return statusOf(stream, rest.GrantOf(ctx)), nil
	})
	stop := r
	stop.ID, stop.Method, stop.Path, stop.Summary = "stopStream", http.MethodPost, "/stream/stop", "End the live view of everybody"
	stop.Errors, stop.Admin = nil, true
	onInstance(s, stop, func(_ context.Context, inst *fleet.Instance, _ *struct{}) (*streamOutput, error) {
		return &streamOutput{}, inst.StopStream()
	})
	s.registerSignaling(r)
	s.registerWHEP(r)
}

const aboutSignaling = `Upgrades to a WebSocket that speaks the signalling protocol of neko 3, as the published clients do:
the server offers a WebRTC session with the picture of the desktop and a data channel for input.`

func (s *Server) registerSignaling(r rest.Route) {
	r.ID, r.Path, r.Query, r.Summary, r.About = "connectStream", "/stream/signaling", true, "Watch and control the desktop", aboutSignaling
	r.Errors = append(r.Errors, http.StatusBadRequest)
	r.More = map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}}
	onInstance(s, r, s.watch(func(ctx context.Context, stream *webrtc.Streamer, conn signalConn, o webrtc.ViewerOptions) error {
		return stream.ServeSignaling(ctx, conn, o)
	}))
	r.ID, r.Path, r.Summary, r.About = "connectVideo", "/stream/video", "Watch and control the desktop without WebRTC", aboutVideo
	onInstance(s, r, s.watch(func(ctx context.Context, stream *webrtc.Streamer, conn signalConn, o webrtc.ViewerOptions) error {
		return stream.ServeVideo(ctx, conn, o)
	}))
}

const aboutVideo = `Upgrades to a WebSocket that carries the pictures itself, where no WebRTC gets through. After
{"event":"video/init","payload":{"codec","width","height"}}, again at each new size, binary messages are pictures: a byte
of flags (1: a decoder can begin here), 64 bits of microseconds, the frame; or, with flag 128, messages of the data
channel. Text messages are those of the signalling that are about control, input, clipboard and presence; the client asks
for a picture to begin with by {"event":"video/key"}. There is no sound.`

// watch makes a viewer's WebSocket of a request.
func (s *Server) watch(serve func(context.Context, *webrtc.Streamer, signalConn, webrtc.ViewerOptions) error) func(context.Context, *fleet.Instance, *watchInput) (*rest.SocketOutput, error) {
	return func(ctx context.Context, inst *fleet.Instance, in *watchInput) (*rest.SocketOutput, error) {
		stream, err := inst.Stream(ctx)
		if err != nil {
			return nil, err
		}
		return &rest.SocketOutput{Body: func(ctx huma.Context) {
			g := rest.RequestOf(ctx).Grant
			o := s.viewer(rest.RequestOf(ctx))
			o.Name, o.ViewOnly = in.Name, in.Role == "view" || g != nil && g.Scope == grants.ScopeView
			if o.Name == "" && g != nil {
				o.Name = g.Name
			}
			s.rest.Upgrade(ctx, signalMost, func(ctx context.Context, ws *rest.Socket) {
				if err := serve(ctx, stream, signalConn{ws}, o); err != nil {
					s.log.Debug("viewer", "error", err)
				}
				ws.Finish()
			})
		}}, nil
	}
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

// Send implements webrtc.Conn.
func (c signalConn) Send(_ context.Context, text []byte) error {
	return c.ws.Send(websocket.TextMessage, text)
}

// SendBinary implements webrtc.BinaryConn.
func (c signalConn) SendBinary(_ context.Context, m []byte) error {
	return c.ws.Send(websocket.BinaryMessage, m)
}

func (s *Server) registerWHEP(r rest.Route) {
	play := r
	play.ID, play.Method, play.Path, play.Summary = "playStream", http.MethodPost, "/stream/whep", "Watch with a WHEP player"
	play.About = "The body is the offer. Such a viewer only watches. DELETE what the Location header names to leave."
	play.Status, play.Scope, play.Query, play.Most = http.StatusCreated, grants.ScopeView, true, webrtc.MaxDescription
	play.Errors = append(play.Errors, http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	play.Body = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{sdpType: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	play.More = map[string]*huma.Response{"201": {
		Description: "The answer",
		Content:     map[string]*huma.MediaType{sdpType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	onInstance(s, play, func(ctx context.Context, inst *fleet.Instance, in *whepInput) (*whepOutput, error) {
		if kind, _, _ := strings.Cut(in.ContentType, ";"); !strings.EqualFold(strings.TrimSpace(kind), sdpType) {
			return nil, rest.UnsupportedMedia.Problem("unsupported media type: the offer must come with Content-Type: "+sdpType).
				With("details", map[string]any{"message": "expected Content-Type: " + sdpType})
		}
		stream, err := inst.Stream(ctx)
		if err != nil {
			return nil, err
		}
		c := in.request.Fiber
		o := s.viewer(in.request)
		o.Name = in.Name
		played, err := stream.Play(ctx, string(in.RawBody), o)
		if err != nil {
			return nil, err
		}
		location := strings.TrimSuffix(c.Path(), "/") + "/" + played.ID
		if token := c.Query("access_token"); token != "" { // the player has no other way to leave
			location += "?" + url.Values{"access_token": {token}}.Encode()
		}
		return &whepOutput{ContentType: sdpType, Location: location, Link: played.Links(), Body: []byte(played.Answer)}, nil
	})
	leave := r
	leave.ID, leave.Method, leave.Path, leave.Summary = "endPlayback", http.MethodDelete, "/stream/whep/{id}", "Leave, as a WHEP player"
	leave.About = "A second DELETE is answered like the first."
	leave.Scope, leave.Query, leave.Errors = grants.ScopeView, true, []int{http.StatusNotFound}
	onInstance(s, leave, func(ctx context.Context, inst *fleet.Instance, in *whepID) (*leftOutput, error) {
		g := rest.GrantOf(ctx)
		if err := inst.EndViewer(in.ID, func(v webrtc.ViewerInfo) bool { return g.Sees(v.Owner) }); err != nil {
			return nil, rest.Missing("viewer", in.ID)
		}
		return &leftOutput{}, nil
	})
}

const sdpType = "application/sdp"
