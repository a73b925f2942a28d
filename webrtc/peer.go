package webrtc

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/logging"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/webrtc/internal/network"
)

type peer struct {
	v           *viewer
	link        *network.Link
	pc          *webrtc.PeerConnection
	track       *webrtc.TrackLocalStaticRTP
	transceiver *webrtc.RTPTransceiver
	sender      *webrtc.RTPSender
	line        cc.BandwidthEstimator // estimates the bandwidth of the connection
	header      rtp.Header            // of the next packet
	report      senderReport
	audio       *peerAudio   // nil: there is no sound
	most        atomic.Int64 // bits per second; 0: unknown

	answered  chan struct{}              // closed when the viewer has answered the offer
	connected atomic.Bool                // the connection is or was established
	excess    atomic.Bool                // it opened too many streams or channels
	offered   atomic.Int32               // addresses that the viewer has sent
	last      atomic.Pointer[ViewerPath] // as of the last call of remember
}

// newPeer adds a viewer and makes its connection, with sound if the desktop has any. The
// viewer's close ends it. An empty id stands for a new one.
func (s *Streamer) newPeer(o ViewerOptions, transport Transport, id string) (*peer, error) {
	v, err := s.newViewer(o, transport, id)
	if err != nil {
		return nil, err
	}
	p := &peer{v: v, answered: make(chan struct{})}
	if err := p.open(); err != nil {
		v.close()
		p.end()
		return nil, fmt.Errorf("make connection: %w", err)
	}
	v.peer.Store(p)
	p.pc.OnConnectionStateChange(p.stateChanged)
	finish := func() {
		p.recordFailure(time.Now())
		p.end()
	}
	tasks := []func(){func() { v.pump(p.write) }, p.readFeedback, p.followLine, p.watchPath, v.act}
	if p.audio != nil {
		tasks = append(tasks, p.pumpAudio, p.readAudioFeedback)
	}
	if !v.start(finish, tasks...) {
		p.end()
		return nil, ErrClosed
	}
	return p, nil
}

func (p *peer) end() {
	if p.pc != nil {
		_ = p.pc.GracefulClose() // an error changes nothing
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
	p.v.soundOn.Store(true)
	return p.openAudio()
}

// stateChanged begins the video when the connection is established, and ends the viewer when
// it has failed.
func (p *peer) stateChanged(state webrtc.PeerConnectionState) {
	switch state {
	case webrtc.PeerConnectionStateConnected:
		if p.connected.Swap(true) {
			return // the connection was established again, and pump may be writing packets
		}
		p.prepareHeader()
		p.bound()
		p.v.begin()
	case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed:
		go p.v.close()
	case webrtc.PeerConnectionStateDisconnected:
		p.remember() // before the connection can fail
	case webrtc.PeerConnectionStateUnknown, webrtc.PeerConnectionStateNew, webrtc.PeerConnectionStateConnecting:
	}
}

func (p *peer) bound() {
	rate := p.v.s.cfg.Bitrate
	if asked := askedRate(p.pc.RemoteDescription().SDP); asked > 0 {
		rate = min(rate, asked)
	}
	p.most.Store(int64(rate))
	p.v.allowed.Store(int64(rate))
}

// prepareHeader sets the header that all packets have in common. Its playout-delay extension
// asks the viewer to show pictures without delay.
func (p *peer) prepareHeader() {
	p.header = rtp.Header{Version: 2}
	for _, e := range p.sender.GetParameters().HeaderExtensions {
		if e.URI == playoutDelayURI {
			_ = p.header.SetExtension(uint8(e.ID), []byte{0, 0, 0}) //nolint:gosec // ids have four bits
		}
	}
}

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

// The packets of a picture are sent in groups: two together, then one at a time, at about
// 100 Mbit/s. Browsers buffer about 50 packets, and routers few more. If the hundreds of
// packets of a key picture were sent together, most of them would be lost.
const (
	groupSize  = 16 // packets
	groupPause = 1500 * time.Microsecond
)

// spread returns the time between the first packet of a picture and another packet of it.
func spread(number int) time.Duration {
	return time.Duration(max(number/groupSize-1, 0)) * groupPause
}

// pause waits. It returns an error if the viewer ends.
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

// lineTime is how often followLine updates the estimate.
const lineTime = 500 * time.Millisecond

// followLine estimates the bandwidth of the viewer's connection.
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
			if most := p.most.Load(); most > 0 {
				e.allowed = min(e.allowed, int(most))
				p.v.allowed.Store(int64(e.allowed))
				p.v.s.adapt()
			}
		}
	}
}

const playoutDelayURI = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"

// connect makes the peer connection of a viewer and the estimator of its bandwidth. It
// offers only the codecs of the streamer.
func (p *peer) connect() error {
	cfg, media := p.v.s.cfg, &webrtc.MediaEngine{}
	if err := registerCodec(media, cfg.Codec); err != nil {
		return err
	}
	if err := media.RegisterCodec(p.v.s.audioFormat.params, webrtc.RTPCodecTypeAudio); err != nil {
		return err
	}
	registry := &interceptor.Registry{}
	registry.Add(&feedbackGuard{})
	bwe, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) { return newEstimator(cfg.MinBitrate, cfg.Bitrate) })
	if err != nil {
		return err
	}
	bwe.OnNewPeerConnection(func(_ string, e cc.BandwidthEstimator) { p.line = e })
	registry.Add(bwe)
	settings := webrtc.SettingEngine{LoggerFactory: quiet{}, BufferFactory: boundStreams(p.flooded)}
	settings.SetSCTPMaxReceiveBufferSize(streamBuffer)
	for _, err := range []error{
		webrtc.ConfigureTWCCHeaderExtensionSender(media, registry),
		media.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: playoutDelayURI}, webrtc.RTPCodecTypeVideo),
		webrtc.ConfigureNack(media, registry),
		p.link.Configure(&settings, p.flooded),
	} {
		if err != nil {
			return err
		}
	}
	api := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(settings))
	p.pc, err = api.NewPeerConnection(webrtc.Configuration{BundlePolicy: webrtc.BundlePolicyMaxBundle, ICEServers: p.link.Relays()})
	return err
}

// registerCodec offers one codec, with the feedback that a peer reads.
func registerCodec(media *webrtc.MediaEngine, codec Codec) error {
	feedback := []webrtc.RTCPFeedback{
		{Type: "transport-cc"}, {Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"},
	}
	p := webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: mimeTypes[codec], ClockRate: clockRate, RTCPFeedback: feedback},
		PayloadType:        96,
	}
	if codec == H264 {
		p.SDPFmtpLine = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
	}
	return media.RegisterCodec(p, webrtc.RTPCodecTypeVideo)
}

var mimeTypes = map[Codec]string{VP8: webrtc.MimeTypeVP8, VP9: webrtc.MimeTypeVP9, H264: webrtc.MimeTypeH264}

// quiet discards Pion's log, which has a line for every packet from an unknown sender.
type quiet struct{}

func (quiet) NewLogger(string) logging.LeveledLogger {
	return logging.NewDefaultLeveledLoggerForScope("", logging.LogLevelDisabled, io.Discard)
}
