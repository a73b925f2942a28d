package webrtc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// peer is the WebRTC connection of a viewer.
type peer struct {
	v           *viewer
	link        *network.Link
	pc          *webrtc.PeerConnection
	track       *webrtc.TrackLocalStaticRTP
	transceiver *webrtc.RTPTransceiver
	sender      *webrtc.RTPSender
	line        cc.BandwidthEstimator
	header      rtp.Header // of the next packet
	report      senderReport
	audio       *peerAudio   // nil: there is no sound
	most        atomic.Int64 // bits per second; 0: not known yet

	answered  chan struct{}              // closed when the viewer has answered our offer
	connected atomic.Bool                // was, at least
	excess    atomic.Bool                // it opened too many streams or channels
	offered   atomic.Int32               // addresses that the viewer has told
	last      atomic.Pointer[ViewerPath] // what was known of its way when it was last looked
}

// newPeer makes the connection of a new viewer, with the picture and, if there
// can be any, the sound. The viewer's close ends it.
//
// id is the viewer's; empty: a new one.
func (s *Streamer) newPeer(o ViewerOptions, transport Transport, id string) (*peer, error) {
	v, err := s.newViewer(o, transport, id)
	if err != nil {
		return nil, err
	}
	p := &peer{v: v, answered: make(chan struct{})}
	if err := p.open(); err != nil {
		v.close("")
		p.end()
		return nil, fmt.Errorf("make connection: %w", err)
	}
	v.peer.Store(p)
	p.pc.OnConnectionStateChange(p.stateChanged)
	finish := func(string) {
		p.noteFailure(time.Now())
		p.end()
	}
	tasks := []func(){func() { v.pump(p.write) }, p.readFeedback, p.followLine, p.watchWay, v.act}
	if p.audio != nil {
		tasks = append(tasks, p.pumpAudio, p.readAudioFeedback)
	}
	if !v.start(finish, tasks...) {
		p.end()
		return nil, ErrClosed
	}
	return p, nil
}

// end closes what open has opened.
func (p *peer) end() {
	if p.pc != nil {
		_ = p.pc.GracefulClose() // what it has to say was told to all
	}
	if p.link != nil {
		if err := p.link.Close(); err != nil {
			p.v.s.log.Debug("close a viewer's port", "error", err)
		}
	}
}

func (p *peer) open() (err error) {
	s := p.v.s
	if p.link, err = s.network.ports.Link(p.v.options.network()); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	p.boundChannels()
	capability := webrtc.RTPCodecCapability{MimeType: mimeTypes[s.cfg.Codec], ClockRate: clockRate}
	if p.track, err = webrtc.NewTrackLocalStaticRTP(capability, "video", "stream"); err != nil {
		return err
	}
	p.transceiver, err = p.pc.AddTransceiverFromTrack(p.track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
	if err != nil {
		return err
	}
	p.sender = p.transceiver.Sender()
	if !s.soundAvailable() {
		return nil
	}
	p.v.hears.Store(true)
	return p.openAudio()
}

// stateChanged begins the video when there is a connection, and ends the viewer
// when there will be none any more.
func (p *peer) stateChanged(state webrtc.PeerConnectionState) {
	switch state {
	case webrtc.PeerConnectionStateConnected:
		if p.connected.Swap(true) {
			return // again: packets are being written, and go on being counted
		}
		p.prepareHeader()
		p.bound()
		p.v.begin()
	case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed:
		go p.v.close("the connection failed")
	case webrtc.PeerConnectionStateDisconnected:
		p.remember() // it may fail next
	case webrtc.PeerConnectionStateUnknown, webrtc.PeerConnectionStateNew, webrtc.PeerConnectionStateConnecting:
	}
}

// bound keeps the bit rate to what the viewer asks for.
func (p *peer) bound() {
	rate := p.v.s.cfg.Bitrate
	if asked := askedRate(p.pc.RemoteDescription().SDP); asked > 0 {
		rate = min(rate, asked)
	}
	p.most.Store(int64(rate))
	p.v.allowed.Store(int64(rate))
}

// prepareHeader makes what all packets have in common: the wish that nothing be
// held back before it is shown (playout-delay extension, both bounds zero).
func (p *peer) prepareHeader() {
	p.header = rtp.Header{Version: 2}
	for _, e := range p.sender.GetParameters().HeaderExtensions {
		if e.URI == playoutDelayURI {
			_ = p.header.SetExtension(uint8(e.ID), []byte{0, 0, 0}) //nolint:gosec // ids have four bits
		}
	}
}

// write sends one picture.
func (p *peer) write(w *wirePicture) error {
	begun := time.Now()
	for i, payload := range w.payloads {
		if err := p.pause(time.Until(begun.Add(spread(i)))); err != nil {
			return err
		}
		p.header.SequenceNumber++
		p.header.Timestamp = w.stamp
		p.header.Marker = i == len(w.payloads)-1
		if err := p.track.WriteRTP(&rtp.Packet{Header: p.header, Payload: payload}); err != nil {
			return err
		}
		p.report.sent(len(payload))
	}
	return p.report.due(p.pc, p.sender, p.v.s.videoClock, time.Now())
}

// The packets of a picture go out in groups: two at once, then one at a time,
// which makes about 100 Mbit/s. Browsers have room for some 50 packets that they
// have not looked at yet, and routers for few more. A key picture has hundreds:
// sent at once, most of them were lost, and that taken for a slow line.
const (
	groupSize  = 16 // packets
	groupPause = 1500 * time.Microsecond
)

// spread is how long after the first packet of a picture another may go out.
func spread(number int) time.Duration {
	return time.Duration(max(number/groupSize-1, 0)) * groupPause
}

// pause waits, unless the viewer goes.
func (p *peer) pause(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.v.ctx.Done():
		return context.Cause(p.v.ctx)
	}
}

// readFeedback listens to what the viewer reports.
func (p *peer) readFeedback() {
	for {
		packets, _, err := p.sender.ReadRTCP()
		if err != nil {
			return
		}
		for _, packet := range packets {
			switch r := packet.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				p.v.askForKey()
			case *rtcp.ReceiverReport:
				for _, report := range r.Reports {
					p.v.loss.Store(uint32(report.FractionLost))
				}
			}
		}
	}
}

// lineTime is how often it is looked how much a line carries.
const lineTime = 500 * time.Millisecond

// followLine keeps the viewer's estimate of its line.
func (p *peer) followLine() {
	tick := time.NewTicker(lineTime)
	defer tick.Stop()
	e := estimate{allowed: p.v.s.cfg.Bitrate, least: p.v.s.cfg.MinBitrate, raised: time.Now()}
	var before uint64
	for {
		select {
		case <-p.v.ctx.Done():
			return
		case now := <-tick.C:
			sent := p.v.bytes.Load()
			rate := int(sent-before) * 8 * int(time.Second/lineTime) //nolint:gosec // it fits
			before = sent
			e.update(p.line.GetTargetBitrate(), rate, float64(p.v.loss.Load())/256, now)
			if most := p.most.Load(); most > 0 { // it is connected
				e.allowed = min(e.allowed, int(most))
				p.v.allowed.Store(int64(e.allowed))
				p.v.s.adapt()
			}
		}
	}
}

// adapt has the encoder keep to what the slowest viewer's line carries.
func (s *Streamer) adapt() {
	rate := int64(s.cfg.Bitrate)
	s.each(func(v *viewer) {
		if a := v.allowed.Load(); v.live.Load() && a > 0 {
			rate = min(rate, a)
		}
	})
	s.rate.set(int(rate))
}
