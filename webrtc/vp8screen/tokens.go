package vp8screen

import (
	"math"
	"math/bits"
)

// The tokens of coefficients (RFC 6386, 13.2).
const (
	tokenZero = iota
	tokenOne
	tokenTwo
	tokenThree
	tokenFour
	tokenCat1 // 5 and 6
	tokenCat2 // 7 to 10
	tokenCat3 // 11 to 18
	tokenCat4 // 19 to 34
	tokenCat5 // 35 to 66
	tokenCat6 // 67 and above
	tokenEnd
	tokenKinds
)

const (
	contexts = 4 * 8 * 3 // kinds of blocks, bands, and what came before
	maxLevel = 2048 + 66
)

// A token is one symbol of a block, stored until the probabilities of the frame are known. It
// has the amount above the token's least value in the lowest 11 bits, then the sign, the
// token (4 bits), the context (7 bits), and a flag that excludes the end of the block because
// the previous token was a zero.
type token uint32

const (
	tokenSign   = 1 << 11
	tokenAt     = 12
	contextAt   = 16
	tokenNotEnd = 1 << 23
)

// tokenTable maps values below 67 to tokens without a context.
var tokenTable = func() (t [67]token) {
	least := [...]int{0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67}
	k := 0
	for v := range t {
		if k+1 < len(least) && v >= least[k+1] {
			k++
		}
		t[v] = token(k)<<tokenAt | token(v-least[k])
	}
	return t
}()

// categoryProbs are the probabilities of the bits above the least value, highest first (RFC
// 6386, 13.2).
var categoryProbs = [tokenKinds][]uint8{
	tokenCat1: {159},
	tokenCat2: {165, 145},
	tokenCat3: {173, 148, 140},
	tokenCat4: {176, 155, 140, 135},
	tokenCat5: {180, 157, 141, 134, 130},
	tokenCat6: {254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129},
}

// tokenPaths are the paths through the token tree (RFC 6386, 13.2).
var tokenPaths = [tokenKinds]treePath{
	tokenEnd:   {{0, 0}},
	tokenZero:  {{0, 1}, {1, 0}},
	tokenOne:   {{0, 1}, {1, 1}, {2, 0}},
	tokenTwo:   {{0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 0}},
	tokenThree: {{0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 1}, {5, 0}},
	tokenFour:  {{0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 1}, {5, 1}},
	tokenCat1:  {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 0}, {7, 0}},
	tokenCat2:  {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 0}, {7, 1}},
	tokenCat3:  {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {8, 0}, {9, 0}},
	tokenCat4:  {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {8, 0}, {9, 1}},
	tokenCat5:  {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {8, 1}, {10, 0}},
	tokenCat6:  {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {8, 1}, {10, 1}},
}

// A tokenCount counts the tokens of a frame by context: in [0] the tokens at which the block
// could have ended, in [1] the others.
type tokenCount [2][contexts][tokenKinds]uint32

// block appends the tokens of a block. nonzero has a bit for each level in coded order. before
// is how many of the two neighbours have coefficients.
func (t *tokenCount) block(out []token, levels *[16]int16, nonzero uint32, kind, first, before int) []token {
	base := kind * 24
	context := base + int(bands[first])*3 + before
	end := bits.Len32(nonzero)
	free := 0 // whether the end is ruled out
	for i := first; i < end; i++ {
		v := int32(levels[zigzag[i&15]])
		sign := v >> 31
		v = (v ^ sign) - sign
		var k token
		if v < int32(len(tokenTable)) {
			k = tokenTable[v]
		} else {
			k = tokenCat6<<tokenAt | token(v-67)
		}
		t[free][context][k>>tokenAt]++
		out = append(out, k|token(sign)&tokenSign|token(context)<<contextAt|token(free)<<23)
		free = 0
		if v == 0 {
			free = 1
		}
		if i < 15 {
			context = base + int(bands[i+1])*3 + min(int(v), 2)
		}
	}
	if end < 16 {
		t[0][context][tokenEnd]++
		out = append(out, tokenEnd<<tokenAt|token(context)<<contextAt)
	}
	return out
}

// The probability of a sign follows the probabilities of the tree.
const (
	evenAt   = 11
	evenProb = 128
)

// tokenProbs are the probabilities of every context.
type tokenProbs [contexts][16]uint8

func keyTokenProbs() (p tokenProbs) {
	for i := range p {
		copy(p[i][:], defaultTokenProbs[i/24][i/3%8][i%3][:])
		p[i][evenAt] = evenProb
	}
	return p
}

// branches returns how often each node of the tree had a 0 and a 1 in a context.
func (t *tokenCount) branches(context int) (n [11][2]uint32) {
	for free := range 2 {
		for k, count := range t[free][context] {
			if count == 0 {
				continue
			}
			for _, s := range tokenPaths[k] {
				if s.prob != 0 || free == 0 {
					n[s.prob][s.bit] += count
				}
			}
		}
	}
	return n
}

// adapt writes new probabilities for the counted tokens (RFC 6386, 13.4) and stores them in
// p. It changes a probability only if that saves bits.
func (t *tokenCount) adapt(w *boolWriter, p *tokenProbs) {
	for context := range p {
		n := t.branches(context)
		update := &tokenUpdateProbs[context/24][context/3%8][context%3]
		for node := range n {
			old, now := p[context][node], uint8(0)
			if zeros, all := n[node][0], n[node][0]+n[node][1]; all > 0 {
				now = uint8(max(1, min(255, (uint64(zeros)*256+uint64(all)/2)/uint64(all))))
				saved := cost(n[node], old) - cost(n[node], now)
				price := int64(8*256) + int64(costs[256-int(update[node])]) - int64(costs[update[node]])
				if saved <= price {
					now = 0
				}
			}
			if now == 0 || now == old {
				w.put(0, update[node])
				continue
			}
			w.put(1, update[node])
			w.literal(uint32(now), 8)
			p[context][node] = now
		}
	}
}

// costs[p] is the price of a symbol of probability p/256, in 1/256 bits.
var costs = func() (c [257]uint16) {
	for p := 1; p < 256; p++ {
		c[p] = uint16(math.Ceil(256 * -math.Log2(float64(p)/256)))
	}
	return c
}()

func cost(n [2]uint32, p uint8) int64 {
	return int64(n[0])*int64(costs[p]) + int64(n[1])*int64(costs[256-int(p)])
}

// tokens writes ts with the probabilities p. Its inner loop is put with the state of the
// writer in local variables.
func (w *boolWriter) tokens(ts []token, p *tokenProbs) {
	low, span, n := w.low, w.span, w.n
	for _, t := range ts {
		probs := &p[t>>contextAt&127]
		kind := t >> tokenAt & 15
		path := tokenSteps[t>>11&31]
		if t&tokenNotEnd != 0 {
			path >>= 5
		}
		for ; path != 1; path >>= 5 {
			split := 1 + ((span-1)*uint32(probs[path>>1&15]))>>8
			mask := -uint32(path & 1)
			low += uint64(split & mask)
			span = split + (span-split-split)&mask
			shift := shifts[uint8(span)]
			span <<= shift & 7
			low <<= shift & 7
			n += uint32(shift)
			if n >= 32 {
				w.low, w.n = low, n
				w.emit()
				low, n = w.low, w.n
			}
		}
		if kind < tokenCat1 || kind == tokenEnd {
			continue
		}
		w.low, w.span, w.n = low, span, n
		extra := categoryProbs[kind]
		for i, prob := range extra {
			w.put(uint32(t)>>(len(extra)-1-i)&1, prob)
		}
		w.put(uint32(t)>>11&1, evenProb)
		low, span, n = w.low, w.span, w.n
	}
	w.low, w.span, w.n = low, span, n
}

// tokenSteps has the tokenPaths by token and sign, each in one word: five bits for a step, of
// which the lowest is the bit to write, and a one at the end. The sign is the last step,
// except for categories.
var tokenSteps = func() (s [32]uint64) {
	for i := range s {
		k, sign := i>>1, uint64(i&1)
		if k >= tokenKinds {
			continue
		}
		s[i] = 1
		if k >= tokenOne && k < tokenCat1 {
			s[i] = s[i]<<5 | evenAt<<1 | sign
		}
		for n := len(tokenPaths[k]) - 1; n >= 0; n-- {
			step := tokenPaths[k][n]
			s[i] = s[i]<<5 | uint64(step.prob)<<1 | uint64(step.bit)
		}
	}
	return s
}()
