package webrtc

import (
	"strings"
	"testing"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

func TestAskedRate(t *testing.T) {
	t.Parallel()
	for sdp, want := range map[string]int{
		"":                                 0,
		"v=0\r\nb=AS:100\r\nm=video 9\r\n": 0, // of the session
		"v=0\r\nm=audio 9\r\nb=AS:100\r\nm=video 9\r\n":                0,
		"v=0\r\nm=video 9\r\nc=IN\r\nb=AS:4000\r\na=x\r\n":             3_800_000,
		"v=0\nm=video 9\nb=TIAS:2500000\n":                             2_500_000,
		"v=0\r\nm=video 9\r\nb=AS:4000\r\nb=TIAS:2500000\r\n":          2_500_000,
		"v=0\r\nm=video 9\r\nb=TIAS:2500000\r\nb=AS:4000\r\n":          2_500_000,
		"v=0\r\nm=video 9\r\nb=AS:99999999999999999999\r\nb=CT:10\r\n": 0,
		"v=0\r\nm=video 9\r\nb=AS:-1\r\nb=TIAS\r\n":                    0,
	} {
		if got := askedRate(sdp); got != want {
			t.Errorf("askedRate(%q) = %d, want %d", sdp, got, want)
		}
	}
}

// TestAskForLess checks that a viewer's b=AS line limits the bit rate until the viewer leaves.
func TestAskForLess(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	pc, err := pion.NewPeerConnection(pion.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pc.GracefulClose() }()
	if _, err := pc.AddTransceiverFromKind(pion.RTPCodecTypeVideo, pion.RTPTransceiverInit{Direction: pion.RTPTransceiverDirectionRecvonly}); err != nil {
		t.Fatal(err)
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := pion.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	sdp := strings.Replace(pc.LocalDescription().SDP, "a=setup", "b=TIAS:2000000\r\na=setup", 1)
	play, err := s.Play(t.Context(), sdp, ViewerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeAnswer, SDP: play.Answer}); err != nil {
		t.Fatal(err)
	}
	until(t, "the viewer is connected", func() bool { return s.Viewers()[0].Pictures > 0 })
	if got := s.Status().Target; got > 2_000_000 {
		t.Errorf("the first picture was made at %d bit/s, want at most 2000000", got)
	}
	if err := s.EndViewer(play.ID); err != nil {
		t.Fatal(err)
	}
	watch(t, s, ViewerOptions{}).next("one", picture.key)
	until(t, "the bit rate rises to the default", func() bool { return s.Status().Target == DefaultBitrate })
}
