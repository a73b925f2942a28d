package vp8screen

import (
	"math"
	"math/rand/v2"
	"testing"
)

// plane is the visible part of one plane of a frame.
type plane struct {
	pix                   []byte
	width, height, stride int
}

// planes returns Y, U and V.
func (f *Frame) planes() [3]plane {
	w, h := (f.Width+1)/2, (f.Height+1)/2
	return [3]plane{{f.Y, f.Width, f.Height, f.YStride}, {f.U, w, h, f.UVStride}, {f.V, w, h, f.UVStride}}
}

func (p plane) row(y int) []byte { return p.pix[y*p.stride:][:p.width] }

// quality measures the difference of pictures from their originals, in the three planes.
type quality struct {
	squares [3]float64 // sums of squared differences
	samples [3]float64
	ssims   [3]float64
	frames  float64
}

// add compares one more frame.
func (q *quality) add(got, want *Frame) {
	q.frames++
	a, b := got.planes(), want.planes()
	for i := range a {
		q.squares[i] += squaredError(a[i], b[i])
		q.samples[i] += float64(a[i].width * a[i].height)
		q.ssims[i] += ssim(a[i], b[i])
	}
}

// psnr returns the peak signal-to-noise ratio of a plane over all frames, in
// dB; 100 for no noise at all.
func (q *quality) psnr(i int) float64 {
	return min(100, 10*math.Log10(255*255*q.samples[i]/max(q.squares[i], 1e-9)))
}

// ssim returns the mean structural similarity of a plane; 1 is the same.
func (q *quality) ssim(i int) float64 { return q.ssims[i] / max(1, q.frames) }

func squaredError(a, b plane) float64 {
	sum := 0
	for y := range a.height {
		p, q := a.row(y), b.row(y)
		for x := range p {
			d := int(p[x]) - int(q[x])
			sum += d * d
		}
	}
	return float64(sum)
}

// moments are the sums that the similarity of two windows is made of.
type moments struct{ n, a, b, squares, product int }

func (m *moments) add(o moments) {
	m.n, m.a, m.b, m.squares, m.product = m.n+o.n, m.a+o.a, m.b+o.b, m.squares+o.squares, m.product+o.product
}

func (m *moments) window(a, b plane, x0, y0, x1, y1 int) {
	for y := y0; y < y1; y++ {
		p, q := a.row(y)[x0:x1], b.row(y)[x0:x1]
		for i := range p {
			s, t := int(p[i]), int(q[i])
			m.a, m.b, m.squares, m.product = m.a+s, m.b+t, m.squares+s*s+t*t, m.product+s*t
		}
		m.n += len(p)
	}
}

func (m *moments) similarity() float64 {
	const c1, c2 = .01 * 255 * .01 * 255, .03 * 255 * .03 * 255
	n := float64(m.n)
	ma, mb := float64(m.a)/n, float64(m.b)/n
	both := float64(m.squares)/n - ma*ma - mb*mb
	return (2*ma*mb + c1) * (2*(float64(m.product)/n-ma*mb) + c2) / ((ma*ma + mb*mb + c1) * (both + c2))
}

// ssim returns the structural similarity (Wang et al., 2004), with windows of
// eight by eight samples at every fourth, as encoders usually measure it. A
// plane that is smaller is one window.
func ssim(a, b plane) float64 {
	if a.width < 8 || a.height < 8 {
		var m moments
		m.window(a, b, 0, 0, a.width, a.height)
		return m.similarity()
	}
	total, n := 0., 0
	above := make([]moments, a.width/4)
	for y := 0; y+4 <= a.height; y += 4 {
		row := make([]moments, a.width/4)
		for i := range row {
			row[i].window(a, b, 4*i, y, 4*i+4, y+4)
		}
		for i := 1; i < len(row) && y > 0; i++ {
			m := row[i]
			m.add(row[i-1])
			m.add(above[i])
			m.add(above[i-1])
			total += m.similarity()
			n++
		}
		above = row
	}
	return total / float64(n)
}

func TestQuality(t *testing.T) {
	t.Parallel()
	want, _ := textCanvas(30, 321, 203)
	original := want.frame()
	var same quality
	same.add(original, original)
	for i := range 3 {
		if same.psnr(i) != 100 || math.Abs(same.ssim(i)-1) > 1e-9 {
			t.Errorf("plane %d with itself: %v dB, %v", i, same.psnr(i), same.ssim(i))
		}
	}
	// A difference of 5 everywhere is 20 log10(255/5) dB and keeps the structure;
	// noise does not.
	bright, noisy := want.frame(), want.frame()
	rnd := rand.New(rand.NewPCG(31, 0))
	for i := range bright.Y {
		bright.Y[i] += 5
		noisy.Y[i] = byte(max(0, min(255, int(noisy.Y[i])+rnd.IntN(61)-30)))
	}
	var b, n quality
	b.add(bright, original)
	n.add(noisy, original)
	if math.Abs(b.psnr(0)-20*math.Log10(255./5)) > 1e-6 || b.psnr(1) != 100 {
		t.Errorf("brighter by 5: %v dB, chroma %v dB", b.psnr(0), b.psnr(1))
	}
	if b.ssim(0) < .95 || n.ssim(0) > .8 || n.psnr(0) > 25 {
		t.Errorf("brighter: %v, noisy: %v and %v dB", b.ssim(0), n.ssim(0), n.psnr(0))
	}
}
