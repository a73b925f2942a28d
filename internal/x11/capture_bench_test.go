package x11_test

import (
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// benchmarkFrame times Frame alone, after each change that draw makes.
func benchmarkFrame(b *testing.B, hold bool, change func(p *painter, n int), prepare func(c *x11.Conn)) {
	s := testx11.Start(b, 1440, 900)
	c := s.Dial(b)
	prepare(c)
	p := newPainter(b, s.Dial(b))
	cp := capture(b, c)
	held := frame(b, cp)
	var spent time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		if change != nil {
			change(p, n)
			p.sync()
		}
		start := time.Now()
		f, err := cp.Frame(b.Context())
		spent += time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		if hold {
			held, f = f, held
		}
		f.Release()
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "frame-ns/op")
	if hold {
		held.Release()
	}
}

func withShm(*x11.Conn) {}

func fillAll(p *painter, n int) { p.fill(uint32(n+1), 0, 0, 1440, 900) }

func fillSome(p *painter, n int) { p.fill(uint32(n+1), 700, 400, 64, 64) }

func BenchmarkFrameUnchanged(b *testing.B) { benchmarkFrame(b, false, nil, withShm) }

func BenchmarkFrameSmallDamage(b *testing.B) { benchmarkFrame(b, false, fillSome, withShm) }

// The previous frame is held, as by an encoder, so that each frame is a copy.
func BenchmarkFrameSmallDamageHeld(b *testing.B) { benchmarkFrame(b, true, fillSome, withShm) }

func BenchmarkFrameFull(b *testing.B) { benchmarkFrame(b, false, fillAll, withShm) }

func BenchmarkFrameFullHeld(b *testing.B) { benchmarkFrame(b, true, fillAll, withShm) }

func BenchmarkFrameFullNoShm(b *testing.B) { benchmarkFrame(b, false, fillAll, (*x11.Conn).WithoutShm) }
