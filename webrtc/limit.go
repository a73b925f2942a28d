package webrtc

import "errors"

// videoLimit is what a client asks for in signal/video: the most pictures a second and the
// most bits a second. Zero: no limit. It is an addition to the protocol.
//
// All viewers get the same video, so the lowest limits of the viewers count.
type videoLimit struct {
	FrameRate int `json:"frame_rate"`
	Bitrate   int `json:"bitrate"`
}

var errVideoLimit = errors.New("signal/video: frame_rate and bitrate must not be negative")

// limitVideo sets the client's limit, also for its later connections.
func (g *signaling) limitVideo(l videoLimit) error {
	if l.FrameRate < 0 || l.Bitrate < 0 {
		return errVideoLimit
	}
	g.mu.Lock()
	g.limit = l
	g.mu.Unlock()
	if v := g.viewing(); v != nil {
		v.limitVideo(l)
	}
	return nil
}

func (v *viewer) limitVideo(l videoLimit) {
	v.frameRate.Store(int64(l.FrameRate))
	v.bitrate.Store(int64(l.Bitrate))
	v.s.adapt()
}

// adapt sets the bit rate to the rate of the slowest viewer, but not below MinBitrate, and
// both rates to the lowest limits of the viewers.
func (s *Streamer) adapt() {
	rate, frames := int64(s.cfg.Bitrate), int64(s.cfg.FrameRate)
	lower := func(to *int64, limit int64) {
		if limit > 0 {
			*to = min(*to, limit)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.viewers {
		if v.live.Load() {
			lower(&rate, v.allowed.Load())
			lower(&rate, v.bitrate.Load())
			lower(&frames, v.frameRate.Load())
		}
	}
	s.rate.Store(max(rate, int64(s.cfg.MinBitrate)))
	s.frames.Store(frames)
}
