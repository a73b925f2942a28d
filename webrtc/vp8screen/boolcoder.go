package vp8screen

import "encoding/binary"

// boolWriter is the arithmetic coder of RFC 6386, 7: every symbol is a bit with a
// probability of 0 in units of 1/256.
//
// low is the lower end of the interval. Its lowest 8 bits have the scale of span. Above them
// are n bits that only a carry can change, and then the carry. 32 bits are written together.
type boolWriter struct {
	buf  []byte
	low  uint64
	span uint32 // length of the interval, 128 to 255
	n    uint32
}

func (w *boolWriter) reset(buf []byte) {
	*w = boolWriter{buf: buf, span: 255}
}

// shifts is how often an interval must be doubled to have a length of 128.
var shifts = func() (s [256]uint8) {
	for i := 1; i < 128; i++ {
		for v := i; v < 128; v <<= 1 {
			s[i]++
		}
	}
	return s
}()

// put writes bit, 0 or 1, which is 0 with the probability prob/256.
func (w *boolWriter) put(bit uint32, prob uint8) {
	split := 1 + ((w.span-1)*uint32(prob))>>8
	mask := -bit
	low := w.low + uint64(split&mask)
	span := split + (w.span-split-split)&mask
	shift := uint32(shifts[uint8(span)])
	w.span = span << shift
	w.low = low << shift
	w.n += shift
	if w.n >= 32 {
		w.emit()
	}
}

func (w *boolWriter) putBool(bit bool, prob uint8) {
	var b uint32
	if bit {
		b = 1
	}
	w.put(b, prob)
}

// A repetition is a sequence of symbols that is written many times. The length of the
// interval before it determines the length after it, so it is written in one step.
type repetition struct {
	steps [128]struct {
		add   uint32
		shift uint8
		span  uint8
	}
	symbols []symbol
	short   bool // no step is too long for the table
}

// A symbol is a bit and the probability that it is 0.
type symbol struct{ bit, prob uint8 }

// prepare fills in the steps for some symbols. It retains the slice.
func (r *repetition) prepare(symbols []symbol) {
	r.symbols, r.short = symbols, true
	for i := range r.steps {
		w := boolWriter{span: uint32(i + 128)}
		for _, s := range symbols {
			w.put(uint32(s.bit), s.prob)
			if w.n > 16 {
				r.short = false
				return
			}
		}
		r.steps[i].add, r.steps[i].shift, r.steps[i].span = uint32(w.low), uint8(w.n), uint8(w.span)
	}
}

func (w *boolWriter) repeat(r *repetition, count int) {
	if !r.short {
		for range count {
			for _, s := range r.symbols {
				w.put(uint32(s.bit), s.prob)
			}
		}
		return
	}
	for range count {
		s := &r.steps[w.span&127]
		w.low = w.low<<s.shift + uint64(s.add)
		w.n += uint32(s.shift)
		w.span = uint32(s.span)
		if w.n >= 32 {
			w.emit()
		}
	}
}

// emit moves the 32 uppermost bits into the buffer.
func (w *boolWriter) emit() {
	keep := w.n - 32 + 8
	out := w.low >> keep
	w.low &= 1<<keep - 1
	w.n -= 32
	if out>>32 != 0 {
		w.carry()
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(out))
}

// carry adds one to the written bits. It ends inside of the buffer, because the code value
// is below one.
func (w *boolWriter) carry() {
	for i := len(w.buf) - 1; i >= 0; i-- {
		w.buf[i]++
		if w.buf[i] != 0 {
			return
		}
	}
}

// literal writes the lowest n bits of v, highest first, without any model.
func (w *boolWriter) literal(v uint32, n int) {
	for n--; n >= 0; n-- {
		w.put(v>>n&1, 128)
	}
}

// signed writes a flag and, if v is not zero, its amount of n bits and its sign.
func (w *boolWriter) signed(v, n int) {
	if v == 0 {
		w.literal(0, 1)
		return
	}
	w.literal(1, 1)
	w.literal(uint32(max(v, -v)), n)
	w.putBool(v < 0, 128)
}

// finish writes the last bits and returns the buffer.
func (w *boolWriter) finish() []byte {
	total := w.n + 8
	v := w.low << (48 - total)
	if v>>48 != 0 {
		w.carry()
	}
	v <<= 16
	for total > 0 {
		w.buf = append(w.buf, byte(v>>56))
		v <<= 8
		total -= min(total, 8)
	}
	// Decoders read ahead. Some report a damaged frame if the data ends before the last
	// symbol.
	w.buf = append(w.buf, 0, 0, 0, 0)
	return w.buf
}

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
