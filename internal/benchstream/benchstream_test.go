package main

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMarkers has the page read markers that Go draws, and damaged ones.
func TestMarkers(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	p, err := servePage()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Run: startRun(t), page: p}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	v, err := b.viewer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkClock(t, v)
	type content struct{ Time, Number float64 }
	read := func(pix []byte) *content {
		grey := make([]int, len(pix)/4)
		for i, y := range luma(pix) {
			grey[i] = int(y)
		}
		var c *content
		if err := v.ask(t.Context(), &c, "readMarker", grey, markerWidth); err != nil {
			t.Fatal(err)
		}
		return c
	}
	m := newMarker()
	for i, at := range []time.Time{time.UnixMilli(0), time.UnixMilli(1<<32 - 1), time.UnixMilli(1763765999123), time.Now()} {
		number := uint16(i * 21845)
		c := read(m.draw(at, number))
		if c == nil || *c != (content{float64(uint32(at.UnixMilli())), float64(number)}) {
			t.Errorf("a marker of %v and %d is read as %v", at, number, c)
		}
	}
	pix := slices.Clone(m.draw(time.UnixMilli(1763765999123), 4711))
	for _, spoilt := range [][2]int{{0, 0}, {31, 3}, {1, 1}, {30, 2}, {17, 1}} { // blocks of the edge, and inside
		m := marker{slices.Clone(pix)}
		white := pix[4*(spoilt[1]*blockSize*markerWidth+spoilt[0]*blockSize)] != 0
		m.set(spoilt[0], spoilt[1], !white)
		if c := read(m.pix); c != nil {
			t.Errorf("with a wrong block at %v it is read as %v", spoilt, c)
		}
	}
	for i := range pix {
		pix[i] = pix[i]/4 + 96 // too grey to tell
	}
	if c := read(pix); c != nil {
		t.Errorf("a grey one is read as %v", c)
	}
	var age float64
	const wrap = 1 << 32
	if err := v.ask(t.Context(), &age, "since", wrap-5, 7*wrap+20); err != nil || age != 25 {
		t.Errorf("the age of a marker from before the wrap is %v, %v, want 25", age, err)
	}
	var limited string
	const sdp = "v=0\r\nm=audio 9\r\nc=IN IP4 0.0.0.0\r\nm=video 9\r\nc=IN IP4 0.0.0.0\r\na=sendonly\r\n"
	const want = "v=0\r\nm=audio 9\r\nc=IN IP4 0.0.0.0\r\nm=video 9\r\nc=IN IP4 0.0.0.0\r\nb=AS:4000\r\na=sendonly\r\n"
	if err := v.ask(t.Context(), &limited, "limited", sdp, 4000); err != nil || limited != want {
		t.Errorf("limited = %q, %v, want %q", limited, err, want)
	}
}

func startRun(t *testing.T) *benchkit.Run {
	t.Helper()
	r, err := benchkit.Start(t.Context(), benchkit.Options{Binary: "deskhand"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkClock checks that the page's clock agrees with this program's.
func checkClock(t *testing.T, v viewer) {
	t.Helper()
	if err := v.setClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		var page float64
		before := time.Now()
		if err := v.ask(t.Context(), &page, "now"); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		const step = 100 // µs
		if at := int64(page * 1000); at < before.UnixMicro()-step || at > after.UnixMicro()+step {
			t.Errorf("the page's clock shows %d µs between %d and %d", at, before.UnixMicro(), after.UnixMicro())
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-n", "0"}, {"extra"}, {"-row", "("}, {"-idle", "-1s"}, {"-window", "0"}, {"-unknown"}} {
		if _, err := parse(args, new(bytes.Buffer)); err == nil {
			t.Errorf("parse(%q) found nothing wrong", args)
		}
	}
	o, err := parse([]string{"-quick", "-row", "^s", "-idle", "2s"}, new(bytes.Buffer))
	if err != nil || o.samples != 30 || o.idle != 2*time.Second || o.window != 3*time.Second || !o.Rows.MatchString("small") || o.Rows.MatchString("idle") {
		t.Errorf("parse = %+v, %v", o, err)
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		goal  goal
		value float64
		want  bool
	}{{atMost(2), 1.9, true}, {atMost(2), 2, true}, {atMost(2), 2.1, false}, {atLeast(2), 1.9, false}, {atLeast(2), 2, true}, {atLeast(2), 2.1, true}} {
		if text, got := tt.goal(tt.value); got != tt.want {
			t.Errorf("%s is met by %v: %v", text, tt.value, got)
		}
	}
	b := &bench{Run: startRun(t)}
	defer b.Close()
	b.addLatency("x", []float64{1, 2, 3, 4, 50}, atMost(3), nil)
	want := [][]string{{"x, median of 5", "3 ms", "at most 3", "met"}, {"x, 95th percentile", "50 ms", "", ""}}
	if !reflect.DeepEqual(b.table, want) {
		t.Errorf("addLatency added %q, want %q", b.table, want)
	}
}

func TestVideo(t *testing.T) {
	t.Parallel()
	for number := range uint16(1000) {
		d := pictureOf(number+1) - pictureOf(number)
		if at := pictureOf(number); at < 0 || at >= videoLength || d != 1 && d != -1 {
			t.Fatalf("picture %d after %d of %d", pictureOf(number+1), at, videoLength)
		}
	}
	white, black := luma([]byte{255, 255, 255, 0})[0], luma([]byte{0, 0, 0, 255})[0]
	if white != 235 || black != 16 {
		t.Errorf("the luma of white is %d and that of black %d, want 235 and 16", white, black)
	}
	// One of two differs by 10: a mean squared error of 50.
	if got := psnr(squaredError([]byte{100, 90}, []byte{100, 100})); math.Abs(got-31.14) > 0.01 {
		t.Errorf("PSNR = %v, want 31.14", got)
	}
	if got := psnr(0); got != 100 {
		t.Errorf("the PSNR of equal pictures is %v", got)
	}
	var parts []string
	s := &splitter{size: 3, each: func(b []byte) error { parts = append(parts, string(b)); return nil }}
	for _, b := range []string{"a", "bcdefg", "", "hi"} {
		if n, err := s.Write([]byte(b)); n != len(b) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if !slices.Equal(parts, []string{"abc", "def", "ghi"}) {
		t.Errorf("split into %q", parts)
	}
}
