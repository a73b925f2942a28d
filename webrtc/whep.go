package webrtc

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/pion/webrtc/v4"
)

// silentLimit bounds the time in which a player must connect after the answer.
const silentLimit = 30 * time.Second

// ErrOffer is returned for a session description that is not an offer to receive video, or that has a
// data channel.
var ErrOffer = errors.New("not an offer to receive video")

// ErrNoCodec is returned for an offer without the codec of the stream's video.
var ErrNoCodec = errors.New("no codec of the offer fits")

// Playback is the result of a WHEP player's offer.
type Playback struct {
	ID         string // of the viewer, for EndViewer
	Answer     string // the session description, with all candidates
	ICEServers []ICEServer
}

// Links returns the values of the Link headers for the ICE servers (draft-ietf-wish-whep-02,
// section 4.6).
func (p Playback) Links() []string {
	var links []string
	for _, s := range p.ICEServers {
		for _, text := range s.URLs {
			link := "<" + text + `>; rel="ice-server"`
			if s.Username != "" {
				link += fmt.Sprintf("; username=%q; credential=%q; credential-type=\"password\"", s.Username, s.Credential)
			}
			links = append(links, link)
		}
	}
	return links
}

// Play adds a player that offers a session (WHEP, draft-ietf-wish-whep-02), as a viewer that
// can only watch. The viewer ends with [Streamer.EndViewer], with its connection or with Close,
// but not with ctx. Play ends a viewer that does not connect within 30 seconds.
//
// Play collects the addresses for the answer. This takes up to 1.5 seconds for names and STUN
// servers, and 1.5 seconds more for TURN servers. If ctx ends earlier, the answer has the
// addresses that are known by then.
//
// The error is [ErrOffer], [ErrNoCodec], [ErrTooManyViewers], [ErrTooManyOfOwner],
// [ErrTooManyJoins], [ErrNoPort] or [ErrClosed]. Other errors are about sockets.
func (s *Streamer) Play(ctx context.Context, offer string, o ViewerOptions) (Playback, error) {
	candidates, err := checkDescription(offer, false)
	if err != nil {
		return Playback{}, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	o.ViewOnly = true
	p, err := s.newPeer(o, TransportWHEP, "")
	if err != nil {
		return Playback{}, err
	}
	p.offered.Store(int32(candidates)) //nolint:gosec // it is bounded
	answer, err := p.answer(ctx, offer)
	if err != nil {
		p.v.close()
		return Playback{}, err
	}
	silent := time.AfterFunc(silentLimit, func() {
		if !p.v.live.Load() {
			p.v.close()
		}
	})
	context.AfterFunc(p.v.ctx, func() { silent.Stop() }) // it would keep p in memory
	return Playback{p.v.id, answer, s.network.iceServers(p.link)}, nil
}

func (p *peer) answer(ctx context.Context, offer string) (string, error) {
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}); err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	a, err := p.pc.CreateAnswer(nil)
	if errors.Is(err, webrtc.ErrSenderWithNoCodecs) {
		return "", p.noCodec()
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	switch {
	case !strings.Contains(a.SDP, "m=video"):
		return "", fmt.Errorf("%w: it has no video", ErrOffer)
	case strings.Contains(a.SDP, "m=video 0 "):
		return "", p.noCodec()
	}
	done := webrtc.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(a); err != nil {
		return "", err
	}
	return p.described(ctx, done), nil
}

func (p *peer) noCodec() error {
	return fmt.Errorf("%w: the video of this stream is %s; offer that, or start the stream with another codec",
		ErrNoCodec, strings.ToUpper(string(p.v.s.cfg.Codec)))
}

// EndViewer ends a viewer, releases its keys, which can take five seconds, and waits until the
// viewer has ended. It returns [ErrViewerNotFound] if no viewer has the id. A client of
// [Streamer.ServeSignaling] stays connected and can ask for the video again.
func (s *Streamer) EndViewer(id string) error {
	v := s.viewer(id)
	if v == nil {
		return ErrViewerNotFound
	}
	v.close()
	return nil
}

// ServeWHEP answers requests of WHEP players: POST with an offer, and DELETE of the Location
// of its answer, which is below the path of ServeWHEP. It calls [Streamer.Play] and
// [Streamer.EndViewer]. Its viewers have no owner and no name.
//
// If NetworkConfig.TCP is set, the server of ServeWHEP must use a listener of [TCP.Share].
// Behind an HTTP proxy, NetworkConfig.TCPPort must be set as well.
//
// The status is 201, or
//   - 400 for [ErrOffer] or a body that cannot be read;
//   - 404 for a DELETE of an unknown viewer;
//   - 405 for other methods;
//   - 406 for [ErrNoCodec];
//   - 415 for a POST of another type than application/sdp;
//   - 503 for other errors of Play.
//
// A successful DELETE has the status 200.
func (s *Streamer) ServeWHEP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.startWHEP(w, r)
	case http.MethodDelete:
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if err := s.EndViewer(id); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
		}
	default:
		w.Header().Set("Allow", "POST, DELETE")
		http.Error(w, "WHEP takes POST of an offer and DELETE of a session", http.StatusMethodNotAllowed)
	}
}

func (s *Streamer) startWHEP(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/sdp" {
		http.Error(w, "the offer must come as application/sdp", http.StatusUnsupportedMediaType)
		return
	}
	offer, err := io.ReadAll(io.LimitReader(r.Body, MaxDescription+1))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// If the network has a TCP, this server's listener shares it.
	play, err := s.Play(r.Context(), string(offer), ViewerOptions{Host: r.Host, Remote: r.RemoteAddr, TCP: true})
	if err != nil {
		status := http.StatusServiceUnavailable
		switch {
		case errors.Is(err, ErrNoCodec):
			status = http.StatusNotAcceptable
		case errors.Is(err, ErrOffer):
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/sdp")
	w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/")+"/"+play.ID)
	w.Header()["Link"] = play.Links()
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, play.Answer)
}

//go:embed viewer
var viewerFiles embed.FS

// Handler returns a handler of a page that shows the desktop, the page's files viewer.js and
// viewer.css and, at whep, [Streamer.ServeWHEP]. It can be mounted with http.StripPrefix
// below a path that ends in a slash.
//
// Viewers of the page can only watch. Input needs [Streamer.ServeSignaling] on a WebSocket.
// The program decides who may see the page.
func (s *Streamer) Handler() http.Handler {
	page, _ := fs.Sub(viewerFiles, "viewer") // it is embedded
	files := http.FileServerFS(page)
	mux := http.NewServeMux()
	mux.HandleFunc("/whep", s.ServeWHEP)
	mux.HandleFunc("/whep/", s.ServeWHEP)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		files.ServeHTTP(w, r)
	})
	return mux
}

const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'"
