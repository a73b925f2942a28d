package computer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// list is a list of actions.
type list struct {
	actions []json.RawMessage
	expect  batch.Expect
	stopOn  []batch.Stop
}

var (
	// passive has the actions during which other callers may send input.
	passive = []string{"screenshot", "zoom", "wait"}
	// opening has the actions that open and close windows by their nature.
	opening = []string{"launch", "open", "windows"}
)

// list executes a list of actions in one turn of the desktop's input queue. The text of the
// outcome has a line for each action. Its picture is the one of the last action.
func (s *seat) list(ctx context.Context, l list) (outcome, error) {
	n := len(l.actions)
	if n == 0 || n > maxActions {
		return outcome{}, badf("actions: must hold 1 to %d actions, and holds %d", maxActions, n)
	}
	all, texts := outcome{}, make([]string, 0, n)
	size := 0
	calls := make([]batch.Action, n)
	for i, raw := range l.actions {
		call, in, err := s.listed(ctx, raw)
		if err != nil {
			return outcome{}, fmt.Errorf("action %d of %d: %w; none was done", i+1, n, err)
		}
		call.Do = func(ctx context.Context) error {
			texts = append(texts, "")
			done, err := s.act(ctx, in)
			if size += len(done.text); err == nil && size > maxText {
				err = badf("the texts of all actions have more than %d bytes", maxText)
			}
			if err != nil {
				texts[len(texts)-1] = "Failed: " + explain(err)
				return err
			}
			texts[len(texts)-1] = done.text
			all.acted = all.acted || done.acted
			all.picture, all.content = done.picture, done.content
			return nil
		}
		calls[i] = call
	}
	result, err := batch.Do(ctx, batch.Target{Desktop: s.desk}, batch.Batch{
		Actions: calls, Expect: l.expect, StopOn: l.stopOn, Settle: &batch.Settle{},
	})
	if errors.Is(err, desktop.ErrStale) {
		return outcome{text: explain(err), acted: true, failed: true}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%d. %s", i+1, text)
	}
	if stop := result.Stopped; stop != nil {
		head := fmt.Sprintf("Stopped after action %d of %d: %s.", stop.Index+1, n, stop.Detail)
		if err := result.Results[stop.Index].Err; err != nil {
			head, all.failed = explain(fmt.Errorf("action %d of %d: %w; %d before it were done", stop.Index+1, n, err, result.Done())), true
		}
		texts = slices.Insert(texts, 0, head)
	}
	all.text = strings.Join(texts, "\n")
	return all, nil
}

// listed checks an action of a list, and returns it without its function.
func (s *seat) listed(ctx context.Context, raw json.RawMessage) (batch.Call, *input, error) {
	in, err := decode(raw)
	if err != nil {
		return batch.Call{}, nil, err
	}
	if _, err := in.function(); err != nil {
		return batch.Call{}, nil, err
	}
	name := in.name()
	call := batch.Call{Name: name, Yields: slices.Contains(passive, name), Opens: slices.Contains(opening, name)}
	if call.Yields || call.Opens { // coordinates are not of something to click
		return call, in, nil
	}
	call.Points, call.Observation, err = s.points(ctx, in)
	return call, in, err
}

// points returns where an input acts, and the observation whose picture that is in.
func (s *seat) points(ctx context.Context, in *input) ([]desktop.Point, string, error) {
	type end struct {
		field string
		at    pair
	}
	var ends []end
	if in.Start != nil {
		ends = append(ends, end{"start_coordinate", *in.Start})
	}
	p, err := in.position()
	if err != nil {
		return nil, "", err
	}
	if p != nil {
		ends = append(ends, end{"coordinate", *p})
	}
	for _, i := range []int{0, len(in.Path) - 1} {
		if len(in.Path) > 0 {
			ends = append(ends, end{fmt.Sprintf("path[%d]", i), in.Path[i]})
		}
	}
	if len(ends) == 0 {
		return nil, "", nil
	}
	of, err := s.view(ctx)
	if err != nil {
		return nil, "", err
	}
	points := make([]desktop.Point, len(ends))
	for i, e := range ends {
		if points[i], err = locate(e.field, e.at, of); err != nil {
			return nil, "", err
		}
	}
	return points, of.ID, nil
}
