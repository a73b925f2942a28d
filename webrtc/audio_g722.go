package webrtc

import (
	"math"
	"sync"

	"github.com/deskhand/deskhand/desktop"
)

// g722Encoder encodes G.722 at 64 kbit/s (ITU-T G.722, 11/88; its section 6 has the names of
// blocks and tables). It splits the band into halves and encodes the error of a prediction
// of each: with six bits for the lower half, and two for the higher.
type g722Encoder struct {
	mono     monoFilter
	qmf      [24]int // samples, the newest last
	low      g722Band
	high     g722Band
	started  bool
	narrowed []int16
	out      []byte
}

func (e *g722Encoder) encode(samples []int16) ([]byte, error) {
	if !e.started {
		e.low.det, e.high.det = 32, 8
		e.started = true
	}
	e.narrowed = e.mono.narrow(e.narrowed[:0], samples)
	e.out = e.out[:0]
	for in := e.narrowed; len(in) >= 2; in = in[2:] {
		low, high := e.halve(int(in[0]), int(in[1]))
		e.out = append(e.out, e.encodeHigh(high)<<6|e.encodeLow(low))
	}
	return e.out, nil
}

// qmfTaps are every second coefficient of the symmetrical filter that splits the band (table
// 11).
var qmfTaps = [12]int{3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11}

// halve returns the next sample of each half of the band.
func (e *g722Encoder) halve(first, second int) (low, high int) {
	copy(e.qmf[:], e.qmf[2:])
	e.qmf[22], e.qmf[23] = first, second
	var odd, even int
	for i, tap := range qmfTaps {
		odd += e.qmf[2*i] * tap
		even += e.qmf[2*i+1] * qmfTaps[11-i]
	}
	return (even + odd) >> 14, (even - odd) >> 14
}

// Tables of the lower half.
var (
	// g722Levels are the decision levels of the quantiser (Q6).
	g722Levels = [...]int{
		35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714,
		786, 858, 940, 1023, 1121, 1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
	}
	// g722Inverse are the values of the four upper bits (QQ4).
	g722Inverse = [16]int{0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584, 1200, 0}
	// g722Weights are their changes of the scale (WL by RL42).
	g722Weights = [16]int{-60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60}
)

func (e *g722Encoder) encodeLow(sample int) byte {
	b := &e.low
	diff := saturate(sample - b.predicted)
	size := diff
	if diff < 0 {
		size = -diff - 1
	}
	level := 0
	for level < len(g722Levels) && size >= g722Levels[level]*b.det>>12 {
		level++
	}
	// Codes count down from the loudest (tables of IL).
	code := 61 - level
	switch {
	case diff < 0 && level < 2:
		code = 63 - level
	case diff < 0:
		code = 33 - level
	}
	quantised := b.det * g722Inverse[code>>2] >> 15
	b.scale(g722Weights[code>>2], 18432, 8)
	b.adapt(quantised)
	return byte(code) //nolint:gosec // it has six bits
}

func (e *g722Encoder) encodeHigh(sample int) byte {
	b := &e.high
	diff := saturate(sample - b.predicted)
	size, code := diff, 2
	if diff < 0 {
		size, code = -diff-1, 0
	}
	weight, value := 798, 7408
	if size < 564*b.det>>12 {
		code++
		weight, value = -214, 1616
	}
	if diff < 0 {
		value = -value
	}
	quantised := b.det * value >> 15
	b.scale(weight, 22528, 10)
	b.adapt(quantised)
	return byte(code) //nolint:gosec // it has two bits
}

// g722Band is the predictor of one half of the band.
type g722Band struct {
	log, det  int    // the scale of the quantiser
	predicted int    // the next sample
	zeros     int    // the zero section's part of it
	pole      [2]int // coefficients
	zero      [6]int
	quantised [6]int // newest first, like the next two
	rebuilt   [2]int
	partial   [2]int
}

// g722Scale is 2^(i/32) in 2048ths (ILB).
var g722Scale = func() (t [32]int) {
	for i := range t {
		t[i] = int(math.Round(2048 * math.Pow(2, float64(i)/32)))
	}
	return t
}()

// scale changes the scale of the quantiser (LOGSCL, SCALEL).
func (b *g722Band) scale(weight, most, shift int) {
	b.log = min(max(b.log*127>>7+weight, 0), most)
	mantissa, exponent := g722Scale[b.log>>6&31], shift-b.log>>11
	if exponent < 0 {
		b.det = mantissa << -exponent << 2
	} else {
		b.det = mantissa >> exponent << 2
	}
}

// adapt adds a quantised difference and predicts the next sample (block 4).
func (b *g722Band) adapt(quantised int) {
	rebuilt, partial := saturate(b.predicted+quantised), saturate(b.zeros+quantised)
	b.adaptPoles(partial)
	b.adaptZeros(quantised)
	b.rebuilt = [2]int{rebuilt, b.rebuilt[0]}
	b.partial = [2]int{partial, b.partial[0]}
	copy(b.quantised[1:], b.quantised[:5])
	b.quantised[0] = quantised

	poles := saturate(b.pole[0]*saturate(2*b.rebuilt[0])>>15 + b.pole[1]*saturate(2*b.rebuilt[1])>>15)
	b.zeros = 0
	for i, q := range b.quantised {
		b.zeros += b.zero[i] * saturate(2*q) >> 15
	}
	b.zeros = saturate(b.zeros)
	b.predicted = saturate(poles + b.zeros)
}

// adaptPoles is UPPOL2, then UPPOL1.
func (b *g722Band) adaptPoles(partial int) {
	same := func(v int) bool { return partial < 0 == (v < 0) }
	first := saturate(4 * b.pole[0])
	if same(b.partial[0]) {
		first = -first
	}
	first = min(first, math.MaxInt16) >> 7
	if same(b.partial[1]) {
		first += 128
	} else {
		first -= 128
	}
	second := min(max(first+b.pole[1]*32512>>15, -12288), 12288)

	step := -192
	if same(b.partial[0]) {
		step = 192
	}
	bound := saturate(15360 - second)
	b.pole[0] = min(max(saturate(step+b.pole[0]*32640>>15), -bound), bound)
	b.pole[1] = second
}

func (b *g722Band) adaptZeros(quantised int) {
	for i, q := range b.quantised {
		step := 128
		switch {
		case quantised == 0:
			step = 0
		case quantised < 0 != (q < 0):
			step = -128
		}
		b.zero[i] = saturate(step + b.zero[i]*32640>>15)
	}
}

func saturate(v int) int { return min(max(v, math.MinInt16), math.MaxInt16) }

// monoFilter converts two channels of 48 000 samples a second into one of 16 000.
type monoFilter struct {
	past []float32 // of the mixed channels
}

const (
	narrowing  = desktop.SoundRate / 16000
	monoLength = 32 * narrowing // of the filter; its middle is 1 ms late
	monoCutoff = 7200           // Hz; frequencies above 8000 would alias
)

// monoTaps is a low pass: a sinc in a Blackman window.
var monoTaps = sync.OnceValue(func() []float32 {
	taps, sum := make([]float32, monoLength), 0.0
	for i := range taps {
		x := float64(i) - float64(monoLength-1)/2
		angle := 2 * math.Pi * float64(i) / float64(monoLength-1)
		window := 0.42 - 0.5*math.Cos(angle) + 0.08*math.Cos(2*angle)
		v := math.Sin(2*math.Pi*monoCutoff/desktop.SoundRate*x) / (math.Pi * x) * window
		taps[i], sum = float32(v), sum+v
	}
	for i := range taps {
		taps[i] /= float32(sum)
	}
	return taps
})

// narrow appends the converted samples.
func (m *monoFilter) narrow(out, samples []int16) []int16 {
	taps := monoTaps()
	if m.past == nil {
		m.past = make([]float32, monoLength, monoLength+len(samples)/2)
	}
	for ; len(samples) >= 2; samples = samples[2:] {
		m.past = append(m.past, (float32(samples[0])+float32(samples[1]))/2)
	}
	at := 0
	for ; at+monoLength+narrowing <= len(m.past); at += narrowing {
		var v float32
		for i, s := range m.past[at+narrowing : at+narrowing+monoLength] {
			v += s * taps[i]
		}
		out = append(out, int16(saturate(int(math.Round(float64(v)))))) //nolint:gosec // it is saturated
	}
	m.past = m.past[:copy(m.past, m.past[at:])]
	return out
}
