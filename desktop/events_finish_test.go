package desktop

import "testing"

// TestFinish delivers the events before Finish.
func TestFinish(t *testing.T) {
	t.Parallel()
	l := NewEventLog("d")
	for range 5 {
		l.Emit(Event{Type: EventAction})
	}
	s := l.Subscribe(2)
	defer s.Close()
	first := <-s.Events()
	s.Finish()
	l.Emit(Event{Type: EventAction})
	s.Finish()
	last := first
	for e := range s.Events() {
		last = e
	}
	if first.Seq != 3 || last.Seq != 5 {
		t.Errorf("events %d to %d, want 3 to 5", first.Seq, last.Seq)
	}
	none := l.Subscribe(0)
	defer none.Close()
	none.Finish()
	for e := range none.Events() {
		t.Errorf("got %+v", e)
	}
}
