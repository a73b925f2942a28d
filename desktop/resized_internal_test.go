package desktop

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestResizedFlood: of a thousand changes of the size in a second, the log has four or five
// and the last one.
func TestResizedFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewEventLog("main")
		sub := l.Subscribe(0)
		defer sub.Close()
		for i := range 1000 {
			l.Emit(Event{Type: EventResized, Size: &Size{i + 1, 100}})
			time.Sleep(time.Millisecond)
		}
		l.Emit(Event{Type: EventResized, Size: &Size{2000, 100}})
		time.Sleep(time.Second)
		l.Emit(Event{Type: EventResized, Size: &Size{3000, 100}})
		l.Emit(Event{Type: EventResized, Size: &Size{4000, 100}})
		l.Close()
		l.Emit(Event{Type: EventResized, Size: &Size{5000, 100}})
		time.Sleep(time.Second)
		var widths []int
		for e := range sub.Events() {
			if e.Type == EventResized {
				widths = append(widths, e.Size.Width)
			}
		}
		n := len(widths)
		if n < 6 || n > 9 || widths[0] != 1 || widths[n-3] != 2000 || widths[n-2] != 3000 || widths[n-1] != 4000 {
			t.Errorf("widths = %v", widths)
		}
	})
}
