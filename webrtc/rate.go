package webrtc

import (
	"sync"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/rtcp"
	"golang.org/x/time/rate"
)

// meter counts encoded pictures.
type meter struct {
	mu              sync.Mutex
	pictures, bytes uint64 // since the start
	slots           [meterSlots]struct {
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
	m.pictures++
	m.bytes += uint64(bytes)
}

// totals returns the number and the size of the pictures since the start.
func (m *meter) totals() (pictures, bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pictures, m.bytes
}

// rates returns the averages of the last full seconds.
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

// estimate follows the bandwidth of one viewer's connection.
//
// Pion's estimator lowers its target to 85 % of the rate that arrived, also if little was sent.
// A screen without changes would lower it to its minimum. So a lower target counts only while
// the sent rate is near the allowed rate, or while packets are lost.
//
// Targets below least are ignored. Pion's goes down to 100 kbit/s when packets are lost, and
// recovers slowly from there.
type estimate struct {
	allowed int // bits per second
	least   int
	raised  time.Time
}

const (
	// busyShare is the share of the allowed rate above which the connection may limit it.
	busyShare = 0.8
	// lossy is the share of lost packets above which the connection is overloaded.
	lossy = 0.02
	// recovery is the share by which the allowed rate grows every second otherwise.
	recovery = 0.2
)

// update applies a new target of the estimator, the rate that is sent and the share of lost
// packets.
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

// estimator is Pion's estimator of bandwidth by a viewer's reports of each packet.
type estimator struct {
	*gcc.SendSideBWE
	reported *rate.Limiter // of packets that reports are about
}

// Limits of reports. Pion looks up each packet that a report is about, received or not. A report
// of 36 bytes can be about 57,337 packets. Browsers report at least four times a second.
const (
	mostInReport = 2048
	mostReported = 20_000 // packets a second
)

func newEstimator(least, most int) (estimator, error) {
	e, err := gcc.NewSendSideBWE(
		gcc.SendSideBWEInitialBitrate(most), gcc.SendSideBWEMinBitrate(least), gcc.SendSideBWEMaxBitrate(most),
		gcc.SendSideBWEPacer(gcc.NewNoOpPacer()), gcc.WithLoggerFactory(quiet{}))
	return estimator{e, rate.NewLimiter(mostReported, mostReported)}, err
}

// WriteRTCP passes on reports of the format that viewers have agreed to. Pion also reads those of
// RFC 8888.
func (e estimator) WriteRTCP(packets []rtcp.Packet, attributes interceptor.Attributes) error {
	admitted := make([]rtcp.Packet, 0, len(packets))
	for _, p := range packets {
		if report, ok := p.(*rtcp.TransportLayerCC); ok {
			if n := int(report.PacketStatusCount); n <= mostInReport && e.reported.AllowN(time.Now(), n) {
				admitted = append(admitted, p)
			}
		}
	}
	return e.SendSideBWE.WriteRTCP(admitted, attributes)
}
