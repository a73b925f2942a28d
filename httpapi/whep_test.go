package httpapi

import (
	"net/http"
	"strings"
	"testing"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/webrtc"
)

// offerOf is the offer of a player that knows one video codec.
func offerOf(t *testing.T, mime string) string {
	t.Helper()
	var media pion.MediaEngine
	codec := pion.RTPCodecParameters{RTPCodecCapability: pion.RTPCodecCapability{MimeType: mime, ClockRate: 90000}, PayloadType: 96}
	if err := media.RegisterCodec(codec, pion.RTPCodecTypeVideo); err != nil {
		t.Fatal(err)
	}
	pc, err := pion.NewAPI(pion.WithMediaEngine(&media)).NewPeerConnection(pion.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer pc.GracefulClose()
	if _, err := pc.AddTransceiverFromKind(pion.RTPCodecTypeVideo, pion.RTPTransceiverInit{Direction: pion.RTPTransceiverDirectionRecvonly}); err != nil {
		t.Fatal(err)
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	return offer.SDP
}

// playsWHEP speaks WHEP as players do that have nothing but a URL.
func (s *testServer) playsWHEP(t *testing.T, path string) {
	t.Helper()
	play := func(mime string) answer {
		return s.do(t, call{path: path + "?access_token=" + s.Token(), body: offerOf(t, mime), kind: sdpType, anon: true})
	}
	long := s.do(t, call{path: path + "?access_token=" + s.Token(), body: strings.Repeat("x", webrtc.MaxDescription+1), kind: sdpType, anon: true})
	long.problem(t, 413, "invalid_request")
	p := play(pion.MimeTypeH264).problem(t, 406, "not_acceptable")
	if detail := p["detail"].(string); !strings.Contains(detail, "VP8") {
		t.Errorf("detail = %q", detail)
	}
	a := play(pion.MimeTypeVP8).want(t, 201)
	if link := a.Header.Get("Link"); !strings.HasPrefix(link, "<stun:") || !strings.HasSuffix(link, `>; rel="ice-server"`) {
		t.Errorf("Link = %q", link)
	}
	place := a.Header.Get("Location")
	for _, method := range []string{http.MethodPatch, http.MethodGet} {
		got := s.do(t, call{method: method, path: place, anon: true, body: "x", kind: "application/trickle-ice-sdpfrag"}).problem(t, 405, "invalid_request")
		if got["detail"] == "" {
			t.Errorf("%s: %v", method, got)
		}
	}
	for range 2 {
		s.do(t, call{method: http.MethodDelete, path: place, anon: true}).want(t, 200)
	}
}

// TestJoinRate: viewers of a guest token join at a limited rate, whichever way they come.
func TestJoinRate(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	_, value := s.token(t, `{"scope":"view"}`)
	refused := false
	for range 200 {
		a := s.do(t, call{path: mainPath + "/stream/whep", body: offer, kind: sdpType, header: bearer(value)})
		if refused = a.StatusCode == http.StatusTooManyRequests; refused {
			p := a.problem(t, http.StatusTooManyRequests, "too_many_viewers")
			if detail, _ := p["detail"].(string); a.Header.Get("Retry-After") != "1" || !strings.Contains(detail, "try again in a second") {
				t.Errorf("%v, Retry-After: %q", p, a.Header.Get("Retry-After"))
			}
			break
		}
		s.do(t, call{path: a.want(t, 201).Header.Get("Location"), method: http.MethodDelete, header: bearer(value)}).want(t, 200)
	}
	if !refused {
		t.Error("200 viewers have joined")
	}
	s.play(t, s.Token())
	refused = false
	for range 200 {
		conn := s.dial(t, mainPath+"/stream/video", http.Header{"Authorization": {"Bearer " + value}})
		var m struct {
			Event   string
			Payload struct{ Message string }
		}
		if err := conn.ReadJSON(&m); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if refused = m.Event == "system/disconnect"; refused {
			if !strings.Contains(m.Payload.Message, "try again in a second") {
				t.Errorf("the viewer is told %q", m.Payload.Message)
			}
			break
		}
	}
	if !refused {
		t.Error("200 viewers have joined by WebSocket")
	}
}
