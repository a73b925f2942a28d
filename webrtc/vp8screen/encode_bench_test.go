package vp8screen

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkEncode encodes the corpus at a fixed quantiser, with the vectors that the finder
// finds. It reports the processor time of encoding a frame after the first, on all cores. Run it
// with -benchtime=60x.
func BenchmarkEncode(b *testing.B) {
	for _, k := range corpus {
		b.Run(k.name, func(b *testing.B) { benchmarkClip(b, k) })
	}
}

func benchmarkClip(b *testing.B, k clip) {
	const width, height = 1920, 1080
	e, err := New(Config{Width: width, Height: height, MinQuantizer: 24, MaxQuantizer: 24, RefineQuantizer: -1})
	if err != nil {
		b.Fatal(err)
	}
	var finder ScrollFinder
	now, prev, dirty := NewFrame(width, height), NewFrame(width, height), NewDirty(width, height)
	var spent, keySpent, keyWall time.Duration
	var size, keySize, n int
	var quality float64
	var data []byte
	clock := time.Unix(1000, 0)
	for c, damage := range k.play(b, width, height, b.N+1) {
		dirty.Clear()
		for _, r := range damage {
			now.SetBGRX(c.pix, c.stride, r, dirty)
		}
		o := EncodeOptions{Dirty: dirty, Now: clock}
		if n > 0 {
			o.Motion = finder.Find(prev, now, dirty)
		}
		clock = clock.Add(time.Second / 30)
		start, begin := cpuTime(b), time.Now()
		got, err := e.Encode(data[:0], now, o)
		took := cpuTime(b) - start
		if err != nil {
			b.Fatal(err)
		}
		data = got.Data
		if n == 0 {
			keySpent, keySize = took, len(data)
			keyWall = time.Since(begin)
		} else {
			spent += took
			size += len(data)
			quality += lumaError(now, e.Reconstructed())
		}
		n++
		prev.CopyDirty(now, dirty)
	}
	frames := float64(n - 1)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(spent.Seconds()*1e3/frames, "ms/frame")
	b.ReportMetric(float64(size)*8*30/1e3/frames, "kbit/s")
	b.ReportMetric(10*math.Log10(255*255/max(quality/frames, 1e-3)), "dB")
	b.ReportMetric(keySpent.Seconds()*1e3, "key-ms")
	b.ReportMetric(keyWall.Seconds()*1e3, "key-wall-ms")
	b.ReportMetric(float64(keySize)/1e3, "key-kB")
}

// lumaError is the mean squared difference.
func lumaError(a, b *Frame) float64 {
	var sum int
	for y := range a.Height {
		p, q := a.Y[y*a.YStride:][:a.Width], b.Y[y*b.YStride:][:a.Width]
		for x := range p {
			d := int(p[x]) - int(q[x])
			sum += d * d
		}
	}
	return float64(sum) / float64(a.Width*a.Height)
}

// cpuTime returns the processor time that this program has used.
func cpuTime(tb testing.TB) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
