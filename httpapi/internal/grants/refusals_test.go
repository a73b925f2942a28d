package grants

import (
	"testing"
	"time"
)

func TestRefusalsAreLoggedSeldom(t *testing.T) {
	t.Parallel()
	var r Refusals
	now := time.Now()
	for i, want := range []struct {
		after   time.Duration
		skipped int
		due     bool
	}{{0, 0, true}, {0, 0, false}, {refusalInterval / 2, 0, false}, {refusalInterval / 2, 2, true}} {
		now = now.Add(want.after)
		if skipped, due := r.Take(now); skipped != want.skipped || due != want.due {
			t.Errorf("refusal %d: %d, %v; want %d, %v", i, skipped, due, want.skipped, want.due)
		}
	}
}
