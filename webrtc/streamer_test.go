package webrtc

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// difference returns the mean difference in grey between a frame of video, whose luma is from
// 16 to 235, and a picture.
func difference(frame, picture image.Image) float64 {
	luma := frame.(*image.YCbCr)
	total, n := 0.0, 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			p := float64(int(luma.Y[luma.YOffset(x, y)])-16) * 255 / 219
			q := float64(color.GrayModel.Convert(picture.At(x, y)).(color.Gray).Y)
			total += max(p-q, q-p)
			n++
		}
	}
	return total / float64(n)
}

func screenshot(t *testing.T, d *desktop.Desktop) image.Image {
	t.Helper()
	shot, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestWatch(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := stream(t, d, Config{})
	c := watch(t, s, ViewerOptions{Name: "a\x1bn\u202en\n"}) // shown without control characters
	first := c.next("the first one", picture.key)
	if !first.delay {
		t.Error("a packet lacks the playout-delay extension")
	}
	if diff := difference(first.image(t), screenshot(t, d)); diff > 12 {
		t.Errorf("the picture is %.1f levels off the screen", diff)
	}
	<-c.open
	c.event("control/host")

	// The pointer follows the data channel.
	if err := c.data.Send([]byte{opMove, 0, 4, 0, 123, 1, 5}); err != nil {
		t.Fatal(err)
	}
	until(t, "the pointer is at 123,261", func() bool {
		p, err := d.Pointer(t.Context())
		return err == nil && p.Point == desktop.Point{X: 123, Y: 261}
	})

	list := s.Viewers()
	if len(list) != 1 || list[0].ID != c.id || list[0].Name != "ann" || !list[0].Control || !list[0].Connected {
		t.Errorf("viewers = %+v", list)
	}
	c.leave()
	until(t, "the viewer is gone", func() bool { return len(s.Viewers()) == 0 })
	if h := d.Control().Holder; h != nil {
		t.Errorf("control is still held by %v", h)
	}
}
