package webrtc

import (
	"sync/atomic"
	"testing"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// TestNACKsAreBounded sends many NACKs to a connection's interceptors, in the order of
// connect, whose network takes no packet.
func TestNACKsAreBounded(t *testing.T) {
	t.Parallel()
	const ssrc = 7
	media, registry := &webrtc.MediaEngine{}, &interceptor.Registry{}
	if err := media.RegisterDefaultCodecs(); err != nil {
		t.Fatal(err)
	}
	registry.Add(&feedbackGuard{})
	if err := webrtc.ConfigureNack(media, registry); err != nil {
		t.Fatal(err)
	}
	chain, err := registry.Build("")
	if err != nil {
		t.Fatal(err)
	}
	var resent, blocked atomic.Int32
	var full atomic.Bool
	release := make(chan struct{})
	writer := chain.BindLocalStream(&interceptor.StreamInfo{SSRC: ssrc, RTCPFeedback: []interceptor.RTCPFeedback{{Type: "nack"}}},
		interceptor.RTPWriterFunc(func(*rtp.Header, []byte, interceptor.Attributes) (int, error) {
			if full.Load() {
				resent.Add(1)
				blocked.Add(1)
				<-release
				blocked.Add(-1)
			}
			return 0, nil
		}))
	for n := range uint16(100) {
		if _, err := writer.Write(&rtp.Header{Version: 2, SSRC: ssrc, SequenceNumber: n}, []byte{1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	full.Store(true)
	nacks := make([]rtcp.Packet, 80)
	for i := range nacks {
		nacks[i] = &rtcp.TransportLayerNack{SenderSSRC: 1, MediaSSRC: ssrc, Nacks: []rtcp.NackPair{{PacketID: uint16(i)}}}
	}
	compound, err := rtcp.Marshal(nacks)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	reader := chain.BindRTCPReader(interceptor.RTCPReaderFunc(func(b []byte, _ interceptor.Attributes) (int, interceptor.Attributes, error) {
		reads++
		return copy(b, compound), interceptor.Attributes{}, nil
	}))
	b := make([]byte, 1500)
	passed := 0
	for ; reads < 2*mostFeedback; passed++ {
		if reads == mostFeedback/2 { // the first ones wait for the network
			until(t, "packets wait", func() bool { return blocked.Load() >= mostResending })
		}
		if _, _, err := reader.Read(b, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := resent.Load(); n < mostResending || n > mostResent+mostResending {
		t.Errorf("%d packets are being resent at the same time", n)
	}
	if passed > mostFeedback+mostFeedback/2 {
		t.Errorf("%d of %d RTCP packets passed", passed, reads)
	}
	close(release)
	until(t, "all packets are sent", func() bool { return blocked.Load() == 0 })
	if err := chain.Close(); err != nil {
		t.Error(err)
	}
}

// TestFewNACKs checks that as many NACKs pass as a browser sends on a bad line.
func TestFewNACKs(t *testing.T) {
	t.Parallel()
	built, err := (&feedbackGuard{}).NewInterceptor("")
	if err != nil {
		t.Fatal(err)
	}
	sent := []rtcp.Packet{
		&rtcp.ReceiverReport{SSRC: 1},
		&rtcp.TransportLayerNack{SenderSSRC: 1, MediaSSRC: 7, Nacks: []rtcp.NackPair{{PacketID: 3, LostPackets: 0xffff}, {PacketID: 90}}},
	}
	reader := built.BindRTCPReader(interceptor.RTCPReaderFunc(func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
		text, err := rtcp.Marshal(sent)
		return copy(b, text), a, err
	}))
	b := make([]byte, 1500)
	for range 10 {
		n, _, err := reader.Read(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rtcp.Unmarshal(b[:n])
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		if nack, ok := got[1].(*rtcp.TransportLayerNack); !ok || len(nack.Nacks) != 2 {
			t.Errorf("the NACK arrives as %v", got[1])
		}
	}
}
