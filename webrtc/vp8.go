package webrtc

import (
	"image"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc/vp8screen"
)

// vp8 is the encoder that is built in.
type vp8 struct {
	send   func([]byte, bool)
	enc    *vp8screen.Encoder
	now    *vp8screen.Frame // the screen
	before *vp8screen.Frame // the screen as it was last encoded
	dirty  *vp8screen.Dirty // where the two differ
	scroll *vp8screen.ScrollFinder
	buf    []byte
}

// movingQuantizer bounds the quality of changing parts of the picture. Viewers cannot see more
// of text that scrolls, and the encoder improves the parts soon after they stop changing.
const movingQuantizer = 22

func newVP8(cfg encoderConfig) (encoder, error) {
	w, h := cfg.Size.Width, cfg.Size.Height
	enc, err := vp8screen.New(vp8screen.Config{
		Width: w, Height: h, Bitrate: cfg.Bitrate, FrameRate: cfg.FrameRate, MinQuantizer: movingQuantizer,
	})
	if err != nil {
		return nil, err
	}
	return &vp8{
		send: cfg.Send, enc: enc,
		now: vp8screen.NewFrame(w, h), before: vp8screen.NewFrame(w, h), dirty: vp8screen.NewDirty(w, h),
		scroll: new(vp8screen.ScrollFinder),
	}, nil
}

// Encode sends one picture, unless it would equal the last one.
func (v *vp8) Encode(f *desktop.FeedFrame, key bool) error {
	o := vp8screen.EncodeOptions{Dirty: v.dirty, Key: key, Now: time.Now()}
	if f != nil {
		for _, r := range f.Changed {
			v.now.SetBGRX(f.Pix, f.Stride, image.Rect(r.X, r.Y, r.X+r.Width, r.Y+r.Height), v.dirty)
		}
		if !v.dirty.Any() && !key {
			return nil // no pixel has changed
		}
		if !key && !f.Reset {
			o.Motion = v.scroll.Find(v.before, v.now, v.dirty)
		}
	}
	e, err := v.enc.Encode(v.buf[:0], v.now, o)
	if err != nil {
		return err
	}
	v.buf = e.Data
	v.before.CopyDirty(v.now, v.dirty)
	v.dirty.Clear()
	v.send(e.Data, e.Key)
	return nil
}

func (v *vp8) SetBitrate(bps int) { v.enc.SetBitrate(bps) }

func (v *vp8) Due() time.Time {
	due, _ := v.enc.Pending()
	return due
}

func (*vp8) ProcessID() string { return "" }

func (*vp8) Close() error { return nil }
