package webrtc

import (
	"sync"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/rtcp"
)

// rateControl decides how many bits a second the encoder may make: as many as
// the slowest viewer's line seems to carry, within bounds.
type rateControl struct {
	most, least int

	mu  sync.Mutex
	now int
}

func (r *rateControl) target() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rateControl) set(bps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = min(max(bps, r.least), r.most)
}

// meter measures what the encoder makes.
type meter struct {
	mu    sync.Mutex
	slots [meterSlots]struct {
		second      int64
		bytes, pics int
	}
}

const meterSlots = 5

func (m *meter) count(now time.Time, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.slots[now.Unix()%meterSlots]
	if s.second != now.Unix() {
		s.second, s.bytes, s.pics = now.Unix(), 0, 0
	}
	s.bytes += bytes
	s.pics++
}

// rates are the averages over the last full seconds.
func (m *meter) rates(now time.Time) (pictures float64, bits int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const span = meterSlots - 1
	var bytes, pics int
	for _, s := range m.slots {
		if age := now.Unix() - s.second; age >= 1 && age <= span {
			bytes += s.bytes
			pics += s.pics
		}
	}
	return float64(pics) / span, bytes * 8 / span
}

// estimate follows what one viewer's line carries.
//
// Pion's estimator takes a stream that sends little for a line that carries
// little: each time that it lowers its target it takes 85 % of what arrived. A
// screen that stands still would bring it down to its floor. So a lower target
// counts only while about as much is sent as was allowed, or packets are lost.
//
// It knows no target below the least that the encoder makes: Pion's goes down to
// 100 kbit/s when packets are lost, and takes long from there to where it tells
// something.
type estimate struct {
	allowed int // bits per second
	least   int
	raised  time.Time
}

const (
	// busyShare is the share of the allowed rate from which on the line, not
	// the screen, may be what limits it.
	busyShare = 0.8
	// lossy is the share of lost packets from which on the line is full.
	lossy = 0.02
	// recovery is how fast the allowed rate grows back while nothing speaks
	// against it: by a fifth every second.
	recovery = 0.2
)

// update takes a new target of the estimator, the rate that is sent and the
// share of packets that got lost.
func (e *estimate) update(target, sent int, loss float64, now time.Time) {
	target = max(target, e.least)
	switch {
	case target > e.allowed:
		e.allowed = target
	case float64(sent) > busyShare*float64(e.allowed), loss > lossy:
		e.allowed = target
	case now.Sub(e.raised) >= time.Second:
		e.allowed += int(recovery * float64(e.allowed))
		e.raised = now
	}
}

// estimator is Pion's, which follows what a line carries by what a viewer
// reports of each packet.
type estimator struct{ *gcc.SendSideBWE }

// newEstimator starts with the most.
func newEstimator(least, most int) (estimator, error) {
	e, err := gcc.NewSendSideBWE(
		gcc.SendSideBWEInitialBitrate(most), gcc.SendSideBWEMinBitrate(least), gcc.SendSideBWEMaxBitrate(most),
		gcc.SendSideBWEPacer(gcc.NewNoOpPacer()), gcc.WithLoggerFactory(quiet{}))
	return estimator{e}, err
}

// WriteRTCP takes what a viewer reports.
func (e estimator) WriteRTCP(packets []rtcp.Packet, attributes interceptor.Attributes) error {
	for _, p := range packets {
		if report, ok := p.(*rtcp.TransportLayerCC); ok {
			cutPadding(report)
		}
	}
	return e.SendSideBWE.WriteRTCP(packets, attributes)
}

// cutPadding removes what fills up a report's last chunk. Pion's estimator, up
// to version 0.1.49 of its module, takes that for packets that were lost: up to
// six of seven. The report tells of PacketStatusCount packets
// (draft-holmer-rmcat-transport-wide-cc-extensions-01, section 3.1).
func cutPadding(report *rtcp.TransportLayerCC) {
	left := int(report.PacketStatusCount)
	for _, chunk := range report.PacketChunks {
		switch c := chunk.(type) {
		case *rtcp.RunLengthChunk:
			c.RunLength = uint16(min(int(c.RunLength), left)) //nolint:gosec // it only gets less
			left -= int(c.RunLength)
		case *rtcp.StatusVectorChunk:
			c.SymbolList = c.SymbolList[:min(len(c.SymbolList), left)]
			left -= len(c.SymbolList)
		}
	}
}
