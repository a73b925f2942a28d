package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Result is what a batch did, and what the desktop looked like after it.
type Result struct {
	Results []Done   // of the actions that ran, in order, with the one that failed
	Stopped *Stopped // nil: all actions ran, or Do has returned an error

	Observation Observation
	Screenshot  *desktop.Screenshot // nil: not asked for
	Windows     []desktop.Window    // if asked for
	Elements    *Outline            // nil: not asked for
	Clipboard   *string             // nil: not asked for; empty: there is no text
}

// Done returns the number of actions that succeeded.
func (r *Result) Done() (n int) {
	for _, d := range r.Results {
		if d.Err == nil {
			n++
		}
	}
	return n
}

// Done is what an action did.
type Done struct {
	Type    string
	At      *desktop.Point   // of a pointer action, in the picture of Batch.Observation
	Window  desktop.WindowID // under the pointer, or that an action opened or focused; zero: none
	App     *desktop.App     // that an action started
	Via     string           // how an action on an element was done, as Elements.Act says
	Value   json.RawMessage  // of an action of the browser
	Settled *bool            // of a Wait with UntilSettled: whether the screen settled in time; nil: another action
	Took    time.Duration
	Err     error // nil: the action succeeded
}

// Stopped is why a batch ended before its last action.
type Stopped struct {
	Reason Stop
	Index  int // of the action that failed, or after which the batch stopped
	Detail string
}

// Observation is the state of the desktop after a batch.
type Observation struct {
	desktop.Observation
	Settled       bool
	SettleTime    time.Duration
	Animating     []desktop.Rect  // small areas of the screen that kept changing
	Focused       *desktop.Window // nil: no window has the focus
	WindowsOpened []desktop.Window
	WindowsClosed []desktop.Window
	Control       desktop.Control
}

// exclusive is a desktop whose input queue a caller can hold.
type exclusive interface {
	Exclusive(context.Context, func(context.Context, *desktop.Turn) error) error
}

// run is a call of Do.
type run struct {
	Target
	batch  Batch
	turn   *desktop.Turn // nil: the desktop has no turns to hold
	before []desktop.Window
	opens  bool // the present action opens or focuses a window by its nature
	values int  // bytes of the browser's results
	result Result
}

// Do runs the actions of a batch in one turn of the desktop's input queue, waits until the
// screen has settled, and observes it. It blocks for the turn, at most 10 s, then for the
// actions, and then for Batch.Settle. Errors of actions are in the Result, and are not errors of
// Do.
//
// The Result is nil if the batch could not begin. The error is then
//   - an *ActionError or *desktop.InvalidError for a batch that is not valid;
//   - an error that wraps desktop.ErrUnsupported for a target without what the batch needs;
//   - a *desktop.ControlHeldError, a *desktop.DeadlineError if the turn did not come in 10 s, or
//     another error of the desktop.
//
// Do returns a Result and an error in two cases. With a *desktop.StaleError, the screen is not as
// Batch.Expect says: no action ran, and the Result has the observation. With a *ProgressError, ctx
// ended or the desktop could not be observed: the Result has the actions that ran, and lacks the
// observation or a part of it.
func Do(ctx context.Context, t Target, b Batch) (*Result, error) {
	if err := cmp.Or(b.Validate(), t.supports(b)); err != nil {
		return nil, err
	}
	if b.StopOn == nil {
		b.StopOn = []Stop{StopFailure, StopControl}
	}
	r := &run{Target: t, batch: b}
	var err error
	if r.before, err = r.windows(ctx); err != nil {
		return nil, err
	}
	before := r.before
	if len(b.Actions) > 0 {
		if err = r.act(ctx); err != nil && len(r.result.Results) == 0 && !errors.Is(err, desktop.ErrStale) {
			return nil, err
		}
	}
	var stale *desktop.StaleError
	if err == nil || errors.As(err, &stale) {
		err = r.observe(ctx, before)
	}
	if stale != nil && err == nil {
		return &r.result, stale
	}
	if err != nil {
		return &r.result, &ProgressError{r.result.Done(), len(b.Actions), err}
	}
	return &r.result, nil
}

// Act runs one action in a turn of its own, or in the turn of ctx, and returns what it did. It
// does not wait for the screen to settle. If the action fails, Act returns its error, which is also
// Done.Err. If Do returns an error, Act returns that and the zero Done, also if ctx ended after the
// action had run.
func Act(ctx context.Context, t Target, a Action) (Done, error) {
	r, err := Do(ctx, t, Batch{Actions: []Action{a}, Settle: &Settle{}})
	if err != nil {
		return Done{}, err
	}
	return r.Results[0], r.Results[0].Err
}

// supports returns an error for the first part of a batch that needs what the target does not
// have.
func (t Target) supports(b Batch) error {
	for i, a := range b.Actions {
		wait, isWait := a.(Wait)
		_, onElement := a.(Element)
		_, browses := a.(Browse)
		switch {
		case t.Elements == nil && (onElement || isWait && (wait.Role != "" || wait.Name != "")):
			return &ActionError{i, noElements()}
		case t.Browser == nil && browses:
			return &ActionError{i, noBrowser()}
		}
	}
	if b.Observe.Elements != nil && t.Elements == nil {
		return noElements()
	}
	if _, ok := t.Desktop.(exclusive); !ok && (b.Expect == ExpectSame || b.Expect == ExpectWindow) {
		return fmt.Errorf("expect %s: %w", b.Expect, desktop.ErrUnsupported)
	}
	return nil
}

// windows lists all windows. A desktop that cannot list them has none.
func (r *run) windows(ctx context.Context) ([]desktop.Window, error) {
	list, err := r.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
	if errors.Is(err, desktop.ErrUnsupported) {
		return nil, nil
	}
	return list, err
}

// act runs the actions in one turn. It returns an error if ctx has ended, or if it did not
// get the turn.
func (r *run) act(ctx context.Context) error {
	d, ok := r.Desktop.(exclusive)
	if !ok {
		return r.actions(ctx, ctx)
	}
	return d.Exclusive(ctx, func(held context.Context, turn *desktop.Turn) error {
		r.turn = turn
		if err := r.compare(held); err != nil {
			return err
		}
		return r.actions(ctx, held)
	})
}

// compare returns a *desktop.StaleError if the screen is not as the batch expects it.
func (r *run) compare(ctx context.Context) error {
	if r.batch.Expect == ExpectAny {
		return nil
	}
	points := map[string][]desktop.Point{} // by observation
	for _, a := range r.batch.Actions {
		if p, observation := positions(a, r.batch.Observation); observation != "" {
			points[observation] = append(points[observation], p...)
		}
	}
	for _, observation := range slices.Sorted(maps.Keys(points)) {
		if err := r.turn.Same(ctx, observation, points[observation], r.batch.Expect == ExpectWindow); err != nil {
			return err
		}
	}
	return nil
}

// actions runs the actions until one stops the batch. ctx is the caller's, and held is the
// one of the turn.
func (r *run) actions(ctx, held context.Context) error {
	for i, a := range r.batch.Actions {
		done := Done{Type: a.Type()}
		start := time.Now()
		r.opens = false
		done.Err = a.do(held, r, &done)
		done.Took = time.Since(start)
		done.At = r.inObservation(done.At)
		r.result.Results = append(r.result.Results, done)
		if ctx.Err() != nil {
			return &desktop.InterruptedError{Op: "actions", Cause: context.Cause(ctx)}
		}
		if done.Err != nil {
			if s := r.failed(i, done.Err); s != nil {
				r.result.Stopped = s
				return nil
			}
		}
		if i == len(r.batch.Actions)-1 {
			return nil
		}
		if s := r.watch(held, i); s != nil {
			r.result.Stopped = s
			return nil
		}
	}
	return nil
}

// inObservation maps a point on the screen to the picture of the batch's observation.
func (r *run) inObservation(p *desktop.Point) *desktop.Point {
	if p == nil || r.batch.Observation == "" {
		return p
	}
	o, err := desktop.ParseObservation(r.batch.Observation)
	if err != nil {
		return p // Validate has parsed it
	}
	at := o.FromScreen(*p)
	return &at
}

// failed returns why an error stops the batch, or nil if it does not.
func (r *run) failed(index int, err error) *Stopped {
	switch {
	case errors.Is(err, desktop.ErrControlHeld), errors.Is(err, desktop.ErrInterrupted):
		return &Stopped{StopControl, index, err.Error()}
	case slices.Contains(r.batch.StopOn, StopFailure), errors.Is(err, desktop.ErrClosed):
		return &Stopped{StopFailure, index, err.Error()}
	}
	return nil
}

// watch returns why windows or the focus stop the batch, or nil if they do not.
func (r *run) watch(ctx context.Context, index int) *Stopped {
	onWindow, onFocus := slices.Contains(r.batch.StopOn, StopWindow), slices.Contains(r.batch.StopOn, StopFocus)
	if !onWindow && !onFocus {
		return nil
	}
	if r.turn != nil {
		if err := r.turn.Quiesce(ctx); err != nil {
			return r.failed(index, err)
		}
	}
	now, err := r.windows(ctx)
	if err != nil {
		return nil // the next action has the error of the desktop
	}
	before := r.before
	r.before = now
	if r.opens {
		return nil
	}
	if onWindow {
		if opened := without(now, before); len(opened) > 0 {
			return &Stopped{StopWindow, index, fmt.Sprintf("window %d opened: %q", opened[0].ID, opened[0].Title)}
		}
		if closed := without(before, now); len(closed) > 0 {
			return &Stopped{StopWindow, index, fmt.Sprintf("window %d closed: %q", closed[0].ID, closed[0].Title)}
		}
	}
	if was, is := focused(before), focused(now); onFocus && (was == nil) != (is == nil) || onFocus && was != nil && was.ID != is.ID {
		if is == nil {
			return &Stopped{StopFocus, index, "no window has the focus"}
		}
		return &Stopped{StopFocus, index, fmt.Sprintf("window %d has the focus: %q", is.ID, is.Title)}
	}
	return nil
}

// without returns the windows of a that are not in b.
func without(a, b []desktop.Window) []desktop.Window {
	var rest []desktop.Window
	for _, w := range a {
		if !slices.ContainsFunc(b, func(o desktop.Window) bool { return o.ID == w.ID }) {
			rest = append(rest, w)
		}
	}
	return rest
}

// focused returns the window that has the focus, or nil.
func focused(list []desktop.Window) *desktop.Window {
	i := slices.IndexFunc(list, func(w desktop.Window) bool { return w.Active })
	if i < 0 {
		return nil
	}
	return &list[i]
}
