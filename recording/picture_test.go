package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// probed is ffprobe's description of a video.
type probed struct {
	Codec     string  `json:"codec_name"`
	Width     int     `json:"width"`
	Height    int     `json:"height"`
	Format    string  `json:"pix_fmt"`
	Space     string  `json:"color_space"`
	Transfer  string  `json:"color_transfer"`
	Primaries string  `json:"color_primaries"`
	Range     string  `json:"color_range"`
	Frames    string  `json:"nb_read_frames"`
	Seconds   float64 `json:"-"`
}

// probe decodes a whole video with ffprobe.
func probe(t testing.TB, path string) probed {
	t.Helper()
	out := output(t, "ffprobe", "-v", "error", "-count_frames", "-count_packets", "-select_streams", "v:0", "-show_streams", "-of", "json", path)
	var answer struct {
		Streams []struct {
			probed
			Packets  string `json:"nb_read_packets"`
			Duration string `json:"duration"`
		}
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Streams) != 1 {
		t.Fatalf("ffprobe %s: %v: %s", path, err, out)
	}
	p := answer.Streams[0]
	var err error
	if p.Seconds, err = strconv.ParseFloat(p.Duration, 64); err != nil {
		t.Fatal(err)
	}
	if p.Frames != p.Packets {
		t.Errorf("%s: %s pictures of %s decode", path, p.Frames, p.Packets)
	}
	return p.probed
}

// frame decodes the first picture of a video, or the last one.
func frame(t testing.TB, path string, last bool) image.Image {
	t.Helper()
	args := []string{"-v", "error", "-i", path, "-fps_mode", "passthrough"}
	if last {
		args = append(args, "-update", "1")
	} else {
		args = append(args, "-frames:v", "1", "-update", "1")
	}
	file := filepath.Join(t.TempDir(), "frame.png")
	output(t, "ffmpeg", append(args, file)...)
	return readPNG(t, []byte(output(t, "cat", file)))
}

func readPNG(t testing.TB, data []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// colour returns a pixel as "#rrggbb".
func colour(img image.Image, x, y int) string {
	r, g, b, _ := img.At(x, y).RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// likeColour checks that a pixel has nearly a colour.
func likeColour(t testing.TB, img image.Image, x, y int, want uint32) {
	t.Helper()
	r, g, b, _ := img.At(x, y).RGBA()
	for i, v := range []uint32{r >> 8, g >> 8, b >> 8} {
		if w := want >> (16 - 8*i) & 255; max(v, w)-min(v, w) > 6 {
			t.Errorf("pixel %d,%d is %s, want nearly #%06x", x, y, colour(img, x, y), want)
			return
		}
	}
}

// paint sets the colour of the desktop's background.
func paint(t testing.TB, d *desktop.Desktop, rgb uint32) {
	t.Helper()
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xsetroot", Args: []string{"-solid", fmt.Sprintf("#%06x", rgb)}, Wait: true})
	if err != nil || app.ExitCode != 0 {
		t.Fatalf("xsetroot: %+v, %v", app, err)
	}
}

// start records a desktop into a store.
func start(t testing.TB, s *Store, d Desktop, cfg Config) *Recording {
	t.Helper()
	r, err := s.Start(t.Context(), d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// videoPath returns the path of a recording's file.
func videoPath(t testing.TB, s *Store, id string) string {
	t.Helper()
	e, err := s.entry(id)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(e.dir, videoFile)
}

// someVideo is a length that a recording reaches soon without changes of the screen: the time
// until the first picture is repeated, minus a slot.
const someVideo = repeatAfter - 100*time.Millisecond

// grown waits until a recording has a length of video on the disk.
func grown(t testing.TB, s *Store, id string, length time.Duration) {
	t.Helper()
	path := videoPath(t, s, id)
	until(t, fmt.Sprintf("%v of video are on the disk", length), func() bool {
		m, err := readMovieFile(path)
		return err == nil && m.duration >= length
	})
}

func TestPictures(t *testing.T) {
	t.Parallel()
	const first, last = 0x3366cc, 0xcc8833
	d := startDesktop(t, desktop.Config{Background: first})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	began := time.Now()
	grown(t, s, r.ID(), someVideo)
	paint(t, d, last)
	if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 320, Y: 240}}); err != nil {
		t.Fatal(err)
	}
	shot, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{Cursor: desktop.CursorPointer})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	info := stop(t, r)
	if info.Status != StatusCompleted || info.Reason != ReasonStopped || info.Error != "" || info.Dropped != 0 {
		t.Errorf("Stop = %+v", info)
	}
	path := videoPath(t, s, info.ID)
	for _, what := range []string{"as it was recorded", "with its index in front"} {
		p := probe(t, path)
		want := probed{
			Codec: "h264", Width: 640, Height: 480, Format: "yuv420p", Space: "smpte170m", Transfer: "bt709", Primaries: "bt709", Range: "tv",
			Frames: strconv.FormatInt(info.Frames, 10), Seconds: p.Seconds,
		}
		if p != want {
			t.Errorf("%s: the video is %+v, want %+v", what, p, want)
		}
		if off := p.Seconds - info.Duration.Seconds(); off < -0.002 || off > 0.002 {
			t.Errorf("%s: the video is %v s long; Info says %v", what, p.Seconds, info.Duration)
		}
		likeColour(t, frame(t, path, false), 600, 50, first)
		end := frame(t, path, true)
		likeColour(t, end, 600, 50, last)
		if n := differing(end, readPNG(t, shot.Data)); n > 40 {
			t.Errorf("%s: %d pixels of the last picture differ from the screen with the pointer", what, n)
		}
		until(t, "the index is at the start", func() bool {
			info, err := s.Get(r.ID())
			return err == nil && info.Seekable
		})
	}
	// The video also has the duration of Stop.
	if length := info.Duration; length < took-time.Second/30 || length > info.Ended.Sub(info.Started)+time.Second/15 {
		t.Errorf("the video is %v long, of %v", length, took)
	}
	if head := output(t, "head", "-c", "64", path); strings.Index(head, "moov") > 64 {
		t.Error("the file does not begin with its index")
	}
}

func TestNoPointer(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Background: 0x808080})
	if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 320, Y: 240}}); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, StoreConfig{})
	info := stop(t, start(t, s, d, Config{Cursor: CursorNone}))
	img := frame(t, videoPath(t, s, info.ID), true)
	for y := 220; y < 270; y++ {
		for x := 300; x < 350; x++ {
			likeColour(t, img, x, y, 0x808080)
		}
	}
}

// TestSizes records odd sizes, regions and smaller pictures.
func TestSizes(t *testing.T) {
	t.Parallel()
	const colour = 0x559911
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 801, Height: 601}, Background: colour})
	s := openStore(t, StoreConfig{})
	tests := []struct {
		name          string
		cfg           Config
		width, height int
	}{
		{"odd", Config{}, 802, 602},
		{"half", Config{Scale: 0.5}, 402, 302},
		{"tenth", Config{Scale: 0.1}, 80, 60},
		{"region", Config{Region: &desktop.Rect{X: 13, Y: 7, Width: 333, Height: 17}}, 334, 18},
		{"least", Config{Region: &desktop.Rect{X: 785, Y: 585, Width: 16, Height: 16}}, 16, 16},
		{"scaled region", Config{Region: &desktop.Rect{X: 1, Y: 1, Width: 301, Height: 203}, Scale: 0.7}, 212, 142},
		{"one a second", Config{FrameRate: 1}, 802, 602},
		{"sixty", Config{FrameRate: 60, Quality: QualityHigh}, 802, 602},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			info := stop(t, start(t, s, d, test.cfg))
			if info.Status != StatusCompleted || info.Width != test.width || info.Height != test.height {
				t.Fatalf("Stop = %+v", info)
			}
			path := videoPath(t, s, info.ID)
			if p := probe(t, path); p.Width != test.width || p.Height != test.height {
				t.Errorf("the video is %dx%d", p.Width, p.Height)
			}
			img := frame(t, path, false)
			for _, x := range []int{0, test.width - 1} {
				for _, y := range []int{0, test.height - 1} {
					likeColour(t, img, x, y, colour)
				}
			}
		})
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	const colour = 0xaa2277
	d := startDesktop(t, desktop.Config{Background: colour, MaxSize: desktop.Size{Width: 1600, Height: 1200}})
	s := openStore(t, StoreConfig{})
	for _, test := range []struct {
		to   desktop.Size
		seen image.Rectangle // of the colour, in the video of 640x480
	}{
		{desktop.Size{Width: 321, Height: 201}, image.Rect(160, 140, 480, 340)},
		{desktop.Size{Width: 1280, Height: 480}, image.Rect(0, 120, 640, 360)},
	} {
		if err := d.Resize(t.Context(), desktop.Size{Width: 640, Height: 480}); err != nil {
			t.Fatal(err)
		}
		r := start(t, s, d, Config{Cursor: CursorNone})
		if err := d.Resize(t.Context(), test.to); err != nil {
			t.Fatal(err)
		}
		paint(t, d, colour)
		info := stop(t, r)
		path := videoPath(t, s, info.ID)
		if p := probe(t, path); p.Width != 640 || p.Height != 480 {
			t.Errorf("the video is %dx%d", p.Width, p.Height)
		}
		img := frame(t, path, true)
		in := test.seen.Inset(20)
		likeColour(t, img, in.Min.X, in.Min.Y, colour)
		likeColour(t, img, in.Max.X, in.Max.Y, colour)
		for _, p := range []image.Point{{20, 20}, {620, 460}, {320, test.seen.Min.Y - 20}, {320, test.seen.Max.Y + 20}} {
			likeColour(t, img, p.X, p.Y, 0)
		}
	}
}
