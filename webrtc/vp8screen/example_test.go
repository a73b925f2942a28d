package vp8screen_test

import (
	"fmt"
	"image"
	"log"
	"time"

	"github.com/deskhand/deskhand/webrtc/vp8screen"
)

// A screen is encoded frame by frame: damaged rectangles are copied into the frame,
// the finder finds the regions that moved, and the encoder encodes the frame.
func Example() {
	const width, height = 640, 360
	encoder, err := vp8screen.New(vp8screen.Config{Width: width, Height: height, Bitrate: 2e6})
	if err != nil {
		log.Fatal(err)
	}
	now, before := vp8screen.NewFrame(width, height), vp8screen.NewFrame(width, height)
	dirty := vp8screen.NewDirty(width, height)
	var scroll vp8screen.ScrollFinder
	var data []byte

	screen := make([]byte, 4*width*height) // BGRX
	for n := range 3 {
		changed := image.Rect(100, 100+40*n, 228, 132+40*n)
		for y := changed.Min.Y; y < changed.Max.Y; y++ {
			for x := changed.Min.X; x < changed.Max.X; x++ {
				screen[4*(y*width+x)+1] = 200
			}
		}

		if !now.SetBGRX(screen, 4*width, changed, dirty) {
			continue // the pixels are the same
		}
		frame, err := encoder.Encode(data[:0], now, vp8screen.EncodeOptions{
			Dirty: dirty, Motion: scroll.Find(before, now, dirty), Now: time.Unix(0, int64(n)*int64(time.Second)/30),
		})
		if err != nil {
			log.Fatal(err)
		}
		before.CopyDirty(now, dirty)
		dirty.Clear()
		data = frame.Data // sent before the next Encode overwrites it
		fmt.Println("key frame:", frame.Key, "small:", len(frame.Data) < 2000)
	}
	// Output:
	// key frame: true small: true
	// key frame: false small: true
	// key frame: false small: true
}
