package webrtc

import (
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

// TestEstimate simulates a line that becomes bad and good again.
func TestEstimate(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	e := estimate{allowed: 8_000_000, least: 1_000_000, raised: now}
	for i, step := range []struct {
		what         string
		target, sent int
		loss         float64
		want         int
	}{
		{"a line that is better than it is used", 8_000_000, 20_000, 0, 9_600_000},
		{"a line that is full", 4_000_000, 8_000_000, 0, 4_000_000},
		{"a line that loses packets", 2_000_000, 50_000, 0.1, 2_000_000},
		{"one that loses most", 100_000, 50_000, 0.7, 1_000_000},
		{"little to send, and nothing lost", 100_000, 700_000, 0, 1_200_000},
		{"the same a second later", 100_000, 700_000, 0, 1_440_000},
		{"all that is allowed is sent, and the target is still low", 130_000, 1_300_000, 0, 1_000_000},
		{"a target that is higher", 3_000_000, 900_000, 0, 3_000_000},
	} {
		now = now.Add(time.Second)
		if e.update(step.target, step.sent, step.loss, now); e.allowed != step.want {
			t.Fatalf("%d, %s: %d bit/s allowed, want %d", i, step.what, e.allowed, step.want)
		}
	}
	if e.update(100_000, 20_000, 0, now.Add(time.Millisecond)); e.allowed != 3_600_000 {
		t.Errorf("%d bit/s allowed, want a fifth more", e.allowed)
	}
	if e.update(100_000, 20_000, 0, now.Add(2*time.Millisecond)); e.allowed != 3_600_000 {
		t.Errorf("%d bit/s allowed, raised twice in a second", e.allowed)
	}
}

// TestReports checks reports of three packets each, in a format that has room for seven.
func TestReports(t *testing.T) {
	t.Parallel()
	for lost, reports := range map[bool][]uint16{
		false: {rtcp.TypeTCCPacketReceivedLargeDelta, rtcp.TypeTCCPacketReceivedSmallDelta, rtcp.TypeTCCPacketReceivedSmallDelta},
		true:  {rtcp.TypeTCCPacketReceivedLargeDelta, rtcp.TypeTCCPacketNotReceived, rtcp.TypeTCCPacketReceivedSmallDelta},
	} {
		e, err := newEstimator(100_000, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		const extension = 5
		w := e.AddStream(&interceptor.StreamInfo{SSRC: 1, RTPHeaderExtensions: []interceptor.RTPHeaderExtension{{
			URI: "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01", ID: extension,
		}}}, interceptor.RTPWriterFunc(func(_ *rtp.Header, b []byte, _ interceptor.Attributes) (int, error) { return len(b), nil }))
		base := uint16(0)
		until(t, "the estimator has seen it", func() bool {
			for nth := range uint16(3) {
				send(t, w, extension, base+nth)
			}
			if err := e.WriteRTCP(arrived(t, base, reports), nil); err != nil {
				t.Fatal(err)
			}
			base += 3
			return e.GetStats()["lossTargetBitrate"] != 0
		})
		if loss := e.GetStats()["averageLoss"].(float64); lost != (loss > 0) {
			t.Errorf("a packet was lost: %v; the estimator takes %v for lost", lost, loss)
		}
	}
}

// TestLargeReports: a small report can be about many packets, each of which costs time. The
// estimator gets no report that is about too many, and no more reports than a limit.
func TestLargeReports(t *testing.T) {
	t.Parallel()
	e, err := newEstimator(100_000, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	report := func(packets uint16) {
		r := &rtcp.TransportLayerCC{SenderSSRC: 2, MediaSSRC: 1, PacketStatusCount: packets}
		for left := packets; left > 0; left -= min(left, 8191) {
			r.PacketChunks = append(r.PacketChunks, &rtcp.RunLengthChunk{Type: rtcp.TypeTCCRunLengthChunk, RunLength: min(left, 8191)})
		}
		if err := e.WriteRTCP([]rtcp.Packet{r}, nil); err != nil {
			t.Fatal(err)
		}
	}
	before := e.reported.Tokens()
	report(57_337)
	if left := e.reported.Tokens(); left < before {
		t.Errorf("a report of 57,337 packets took %v of %v", before-left, before)
	}
	begun := time.Now()
	for range 1000 {
		report(mostInReport)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("1000 reports of %d packets took %v", mostInReport, took)
	}
}

// send sends a packet with its number on the line.
func send(t *testing.T, w interceptor.RTPWriter, extension uint8, number uint16) {
	t.Helper()
	text, err := (&rtp.TransportCCExtension{TransportSequence: number}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	h := &rtp.Header{Version: 2, SSRC: 1, SequenceNumber: number}
	if err := h.SetExtension(extension, text); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(h, make([]byte, 1000), nil); err != nil {
		t.Fatal(err)
	}
}

// arrived returns a viewer's report of packets that arrived 100 ms after the packets of the
// previous report, as parsed from the wire.
func arrived(t *testing.T, base uint16, reports []uint16) []rtcp.Packet {
	t.Helper()
	report := &rtcp.TransportLayerCC{
		SenderSSRC: 2, MediaSSRC: 1, BaseSequenceNumber: base, PacketStatusCount: uint16(len(reports)),
		ReferenceTime: uint32(base), FbPktCount: uint8(base / 3),
		PacketChunks: []rtcp.PacketStatusChunk{&rtcp.StatusVectorChunk{
			Type: rtcp.TypeTCCStatusVectorChunk, SymbolSize: rtcp.TypeTCCSymbolSizeTwoBit, SymbolList: reports,
		}},
	}
	size := 20 + 2
	for _, r := range reports {
		switch r {
		case rtcp.TypeTCCPacketReceivedSmallDelta:
			report.RecvDeltas = append(report.RecvDeltas, &rtcp.RecvDelta{Type: r, Delta: 250})
			size++
		case rtcp.TypeTCCPacketReceivedLargeDelta:
			report.RecvDeltas = append(report.RecvDeltas, &rtcp.RecvDelta{Type: r, Delta: 100_000})
			size += 2
		}
	}
	words := (size + 3) / 4
	report.Header = rtcp.Header{Padding: size%4 != 0, Count: rtcp.FormatTCC, Type: rtcp.TypeTransportSpecificFeedback, Length: uint16(words - 1)}
	raw, err := report.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := rtcp.Unmarshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	return packets
}
