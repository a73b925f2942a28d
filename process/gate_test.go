package process

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestGate(t *testing.T) {
	t.Parallel()
	var g gate
	g.setLimit(1)
	if g.enter() != nil {
		t.Fatal("the first caller has to wait")
	}
	second, third, fourth := g.enter(), g.enter(), g.enter()
	g.giveUp(third)
	g.leave()
	if !<-second {
		t.Error("the second caller is refused")
	}
	g.leave()
	// The fourth caller was admitted when it gave up. The next caller gets its place.
	g.giveUp(fourth)
	if g.inside != 0 || len(g.waiting) != 0 || g.enter() != nil {
		t.Errorf("%d inside, %d waiting", g.inside, len(g.waiting))
	}
	fifth := g.enter()
	g.setLimit(2)
	if !<-fifth {
		t.Error("a higher limit admits no caller")
	}
	sixth := g.enter()
	g.setLimit(1)
	g.leave()
	select {
	case <-sixth:
		t.Error("a lower limit is not kept")
	default:
	}
	g.close()
	if <-sixth || <-g.enter() {
		t.Error("a closed gate admits a caller")
	}
}

func TestGateUnderPressure(t *testing.T) {
	t.Parallel()
	var g gate
	g.setLimit(3)
	var inside atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 200 {
				if w := g.enter(); w != nil {
					if i%5 == 0 {
						g.giveUp(w)
						continue
					}
					<-w
				}
				if n := inside.Add(1); n > 3 {
					t.Errorf("%d inside", n)
				}
				inside.Add(-1)
				g.leave()
			}
		})
	}
	wg.Wait()
	if g.inside != 0 || len(g.waiting) != 0 {
		t.Errorf("%d inside, %d waiting", g.inside, len(g.waiting))
	}
}
