package batch_test

import (
	"errors"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// TestExpect: positions in an old picture are refused if the screen has changed there, with a
// new observation.
func TestExpect(t *testing.T) {
	t.Parallel()
	d := start(t, "xterm")
	shown := batch.Observe{Screenshot: &desktop.ScreenshotOptions{Scale: 0.5}}
	before := do(t, d, batch.Batch{Observe: shown, Settle: quick})
	terminal(t, d)
	middle, corner := desktop.Point{X: 200, Y: 150}, desktop.Point{X: 5, Y: 295}
	run := func(expect batch.Expect, observation string, p desktop.Point) (*batch.Result, error) {
		return batch.Do(t.Context(), batch.Target{Desktop: d}, batch.Batch{
			Observation: observation, Expect: expect, Observe: shown,
			Actions: []batch.Action{batch.Move{At: corner}, batch.Move{At: p}},
		})
	}
	for _, expect := range []batch.Expect{"", batch.ExpectSame, batch.ExpectWindow} {
		r, err := run(expect, before.Observation.ID, middle)
		var stale *desktop.StaleError
		if !errors.As(err, &stale) || stale.At != middle || r.Done() != 0 || r.Screenshot == nil || r.Observation.ID == before.Observation.ID ||
			len(r.Observation.WindowsOpened) != 0 {
			t.Errorf("expect %q: %+v, %v", expect, r, err)
		}
		r, err = run(expect, before.Observation.ID, corner)
		if err != nil || r.Done() != 2 || *r.Results[1].At != corner {
			t.Errorf("expect %q beside the window: %+v, %v", expect, r, err)
		}
		if _, err = run(expect, r.Observation.ID, middle); err != nil {
			t.Errorf("expect %q with the new observation: %v", expect, err)
		}
	}
	if r, err := run(batch.ExpectAny, before.Observation.ID, middle); err != nil || *r.Results[1].At != middle {
		t.Errorf("expect any: %+v, %v", r, err)
	}
	if p, err := d.Pointer(t.Context()); err != nil || p.X != 401 || p.Y != 301 {
		t.Errorf("pointer = %+v, %v", p, err)
	}
	for _, b := range []batch.Batch{{Observation: "obs_x"}, {Expect: "more"}, {Observe: batch.Observe{Screenshot: &desktop.ScreenshotOptions{Scale: 2}}}} {
		if _, err := batch.Do(t.Context(), batch.Target{Desktop: d}, b); !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

// TestExpectUnsupported: a desktop without turns cannot be compared with an observation.
func TestExpectUnsupported(t *testing.T) {
	t.Parallel()
	d := struct{ batch.Desktop }{start(t)}
	run := func(expect batch.Expect) error {
		_, err := batch.Do(t.Context(), batch.Target{Desktop: d}, batch.Batch{
			Expect: expect, Actions: []batch.Action{batch.Move{At: desktop.Point{X: 5, Y: 5}}}, Settle: quick,
		})
		return err
	}
	for _, expect := range []batch.Expect{batch.ExpectSame, batch.ExpectWindow} {
		if err := run(expect); !errors.Is(err, desktop.ErrUnsupported) {
			t.Errorf("expect %s: %v", expect, err)
		}
	}
	for _, expect := range []batch.Expect{"", batch.ExpectAny} {
		if err := run(expect); err != nil {
			t.Errorf("expect %q: %v", expect, err)
		}
	}
}
