package vp8screen

// The transforms of RFC 6386, 14. The inverse ones are exactly what decoders compute. The forward
// ones are their inverses except for rounding.

const (
	cosPi8 = 85627 // sqrt(2) * cos(pi/8) * 2^16
	sinPi8 = 35468 // sqrt(2) * sin(pi/8) * 2^16
)

// forwardDCT transforms a 4x4 residual in place. A flat block of value v has a
// first coefficient of 8v.
func forwardDCT(c *[16]int32) {
	const cos, sin = cosPi8 >> 4, sinPi8 >> 4
	for i := 0; i < 16; i += 4 {
		r := c[i : i+4 : i+4]
		a, b := (r[0]+r[3])<<3, (r[1]+r[2])<<3
		d, e := (r[1]-r[2])<<3, (r[0]-r[3])<<3
		r[0], r[2] = a+b, a-b
		r[1] = (d*sin + e*cos + 1<<11) >> 12
		r[3] = (e*sin - d*cos + 1<<11) >> 12
	}
	for i := range 4 {
		a, b := c[i]+c[12+i], c[4+i]+c[8+i]
		d, e := c[4+i]-c[8+i], c[i]-c[12+i]
		c[i], c[8+i] = (a+b+7)>>4, (a-b+7)>>4
		c[4+i] = (d*sin + e*cos + 1<<15) >> 16
		c[12+i] = (e*sin - d*cos + 1<<15) >> 16
	}
}

// forwardWHT transforms the first coefficients of the 16 luma blocks.
func forwardWHT(c *[16]int32) {
	for i := 0; i < 16; i += 4 {
		r := c[i : i+4 : i+4]
		a, b, d, e := r[0]+r[3], r[1]+r[2], r[1]-r[2], r[0]-r[3]
		r[0], r[1], r[2], r[3] = a+b, e+d, a-b, e-d
	}
	for i := range 4 {
		a, b, d, e := c[i]+c[12+i], c[4+i]+c[8+i], c[4+i]-c[8+i], c[i]-c[12+i]
		c[i], c[4+i], c[8+i], c[12+i] = (a+b+1)>>1, (e+d+1)>>1, (a-b+1)>>1, (e-d+1)>>1
	}
}

// inverseWHT is the transform of RFC 6386, 14.3.
func inverseWHT(c *[16]int32) {
	for i := range 4 {
		a, b, d, e := c[i]+c[12+i], c[4+i]+c[8+i], c[4+i]-c[8+i], c[i]-c[12+i]
		c[i], c[4+i], c[8+i], c[12+i] = a+b, e+d, a-b, e-d
	}
	for i := 0; i < 16; i += 4 {
		r := c[i : i+4 : i+4]
		a, b, d, e := r[0]+r[3]+3, r[1]+r[2], r[1]-r[2], r[0]-r[3]+3
		r[0], r[1], r[2], r[3] = (a+b)>>3, (e+d)>>3, (a-b)>>3, (e-d)>>3
	}
}

// addInverseDCT adds the inverse transform of c to the 4x4 samples at the start
// of p (RFC 6386, 14.4).
func addInverseDCT(c *[16]int32, p []byte, stride int) {
	var t [16]int32
	for i := range 4 {
		a, b := c[i]+c[8+i], c[i]-c[8+i]
		d := (c[4+i]*sinPi8)>>16 - (c[12+i]*cosPi8)>>16
		e := (c[4+i]*cosPi8)>>16 + (c[12+i]*sinPi8)>>16
		t[i], t[4+i], t[8+i], t[12+i] = a+e, b+d, b-d, a-e
	}
	for i := range 4 {
		q := t[4*i : 4*i+4 : 4*i+4]
		a, b := q[0]+q[2]+4, q[0]-q[2]+4
		d := (q[1]*sinPi8)>>16 - (q[3]*cosPi8)>>16
		e := (q[1]*cosPi8)>>16 + (q[3]*sinPi8)>>16
		r := p[i*stride : i*stride+4 : i*stride+4]
		r[0] = clamp(int32(r[0]) + (a+e)>>3)
		r[1] = clamp(int32(r[1]) + (b+d)>>3)
		r[2] = clamp(int32(r[2]) + (b-d)>>3)
		r[3] = clamp(int32(r[3]) + (a-e)>>3)
	}
}

// addDC is addInverseDCT for a block that has only a first coefficient.
func addDC(c int32, p []byte, stride int) {
	d := (c + 4) >> 3
	if d == 0 {
		return
	}
	for i := range 4 {
		r := p[i*stride : i*stride+4 : i*stride+4]
		r[0], r[1] = clamp(int32(r[0])+d), clamp(int32(r[1])+d)
		r[2], r[3] = clamp(int32(r[2])+d), clamp(int32(r[3])+d)
	}
}

func clamp(v int32) byte {
	if uint32(v) <= 255 {
		return byte(v)
	}
	return byte(^(v >> 31))
}
