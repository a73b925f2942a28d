package webrtc

import (
	"io"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/logging"
	"github.com/pion/webrtc/v4"
)

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
		p.link.Configure(&settings),
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

// quiet discards Pion's log, which has a line for every packet of a stranger.
type quiet struct{}

// NewLogger implements logging.LoggerFactory.
func (quiet) NewLogger(string) logging.LeveledLogger {
	return logging.NewDefaultLeveledLoggerForScope("", logging.LogLevelDisabled, io.Discard)
}
