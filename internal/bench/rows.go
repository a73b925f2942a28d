package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// burst is the number of concurrent screenshots.
const burst = 50

// call makes a call and returns how long it took. An [incomplete] is not an error
// but a finding, of a call that may have no time.
type call func(context.Context, *bed) (time.Duration, error)

// row is one line of a table. A goal that is zero is not set.
type row struct {
	key, title string
	bytes      int64         // that a call moves, where that is measured
	messages   int64         // or these
	factor     float64       // goal: how many times faster than the reference
	below      time.Duration // or this fast
	rate       float64       // or this many MB/s or messages/s
	growth     int64         // and less growth of resident memory, in bytes
	whole      bool          // and every reader gets everything
	impossible string        // why the reference cannot do it at all
	unsynced   bool          // deskhand is one with --database-sync normal
	rounds     bool          // options.rounds decides how often it is done
	once       bool          // it is done once
	often      bool          // it is short: done oftenTimes as often as others

	call            call
	prepare, finish func(context.Context, *bed) error // around all calls of a bed; may be nil
}

// incomplete is the number of readers that did not get everything.
type incomplete int

func (n incomplete) Error() string { return fmt.Sprintf("%d readers miss something", int(n)) }

const quickEnough = 500 * time.Microsecond

// parity is the factor of rows where deskhand must be no slower: the medians of
// two equally fast servers differ by as much from run to run.
const parity = 0.95

var desktopRows = []row{
	{key: "png-changing", title: "PNG, content changing between calls", factor: 12, call: picture("format=png", true)},
	{key: "png-same", title: "PNG, nothing changed", factor: 100, call: picture("format=png", false)},
	{key: "jpeg", title: "JPEG, changing", factor: 10, call: picture("format=jpeg", true)},
	{key: "webp", title: "WebP, changing", factor: 4, call: picture("format=webp", true)},
	{key: "png-scaled", title: "PNG at scale 0.5, changing", factor: 15, call: picture("format=png&scale=0.5", true)},
	{key: "png-crosshair", title: "PNG with crosshair, changing", factor: 20, call: picture("format=png&showCursor=true", true)},
	{key: "move", title: "mouse move", factor: 150, below: quickEnough, call: point("move")},
	{key: "click", title: "click", factor: 150, below: quickEnough, call: point("click")},
	{key: "windows", title: "list of windows", factor: 150, below: quickEnough, call: windows},
	{key: "type", title: "type 100 ASCII characters, delayMs 0", factor: 20, call: typeText},
	{
		key: "act-and-observe", title: "click, settle for 50 ms and PNG in one call: time beyond two calls", below: 5 * time.Millisecond,
		impossible: "has no such call", call: actAndObserve,
	},
	{key: "burst", title: fmt.Sprintf("%d concurrent screenshots, wall time", burst), factor: 40, rounds: true, call: manyPictures},
}

var startRows = []row{{key: "start", title: "desktop start", factor: 1.2, call: restart}}

// repeats bounds how often a picture is taken until it shows a change.
const repeats = 20

// picture takes a screenshot, after a change of the screen if changing. A picture
// that does not show the change, because the machine was too busy to draw it in
// time, is counted and taken again.
func picture(query string, changing bool) call {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		if changing {
			if err := b.change(ctx); err != nil {
				return 0, err
			}
		}
		for range repeats {
			took, err := b.call(ctx, http.MethodGet, "/v1/desktop/screenshot?"+query, nil)
			if err != nil || !b.sameAsBefore() || !changing {
				return took, err
			}
			b.repeated++
			if err := benchkit.Pause(ctx, drawTime); err != nil {
				return 0, err
			}
		}
		return 0, fmt.Errorf("%s: the picture does not change", b.name)
	}
}

// point uses the mouse at a place in a terminal that differs at every call.
func point(action string) call {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		b.turn++
		return b.call(ctx, http.MethodPost, "/v1/desktop/mouse/"+action, map[string]any{"x": 100 + b.turn*37%500, "y": 100 + b.turn*23%200})
	}
}

// actAndObserve returns how much longer a list of actions with its observation takes than the
// same by the routes of its parts.
func actAndObserve(ctx context.Context, b *bed) (time.Duration, error) {
	apart, err := point("click")(ctx, b)
	if err != nil {
		return 0, err
	}
	shown, err := b.call(ctx, http.MethodGet, "/v1/desktop/screenshot?format=png&settleMs=50", nil)
	if err != nil {
		return 0, err
	}
	b.turn++
	together, err := b.call(ctx, http.MethodPost, "/v1/desktop/actions", map[string]any{
		"actions": []any{map[string]any{"type": "click", "x": 100 + b.turn*37%500, "y": 100 + b.turn*23%200}},
		"settle":  map[string]any{"ms": 50}, "observe": map[string]any{"screenshot": map[string]any{}},
	})
	return max(together-apart-shown, time.Microsecond), err
}

func windows(ctx context.Context, b *bed) (time.Duration, error) {
	took, err := b.call(ctx, http.MethodGet, "/v1/desktop/windows", nil)
	if err != nil {
		return 0, err
	}
	var list struct{ Windows []struct{ Title string } }
	if err := json.Unmarshal(b.body.Bytes(), &list); err != nil {
		return 0, err
	}
	if len(list.Windows) != len(places) {
		return 0, fmt.Errorf("%s has %d windows, want %d", b.name, len(list.Windows), len(places))
	}
	return took, nil
}

// sentence has a hundred characters.
var sentence = strings.Repeat("The quick brown fox, jumps over 13 lazy dogs (Yes!) ", 2)[:100]

// typeText types into the terminal that has the focus. Its answer may come before
// the text does; characters that do not come at all are counted.
func typeText(ctx context.Context, b *bed) (time.Duration, error) {
	t := b.terminals[0]
	at := map[string]any{"x": t.place.x + 100, "y": t.place.y + 100}
	if _, err := b.call(ctx, http.MethodPost, "/v1/desktop/mouse/click", at); err != nil {
		return 0, err
	}
	took, err := b.call(ctx, http.MethodPost, "/v1/desktop/keyboard/type", map[string]any{"text": sentence, "delayMs": 0})
	if err != nil {
		return 0, err
	}
	lost, err := t.typed(sentence)
	b.lost += lost
	return took, err
}

// manyPictures takes screenshots concurrently, after a change.
func manyPictures(ctx context.Context, b *bed) (time.Duration, error) {
	if err := b.change(ctx); err != nil {
		return 0, err
	}
	return concurrently(burst, func(int) error {
		req, err := b.server.Request(ctx, http.MethodGet, "/v1/desktop/screenshot", nil)
		if err != nil {
			return err
		}
		return benchkit.Do(b.http, req, io.Discard)
	})
}

// concurrently runs n calls of f and returns how long they took together.
func concurrently(n int, f func(k int) error) (time.Duration, error) {
	var group errgroup.Group
	begin := time.Now()
	for k := range n {
		group.Go(func() error { return f(k) })
	}
	err := group.Wait()
	return time.Since(begin), err
}

// restart stops the desktop and measures its start.
func restart(ctx context.Context, b *bed) (time.Duration, error) {
	if _, err := b.call(ctx, http.MethodPost, "/v1/desktop/stop", nil); err != nil {
		return 0, err
	}
	took, err := b.startDesktop(ctx)
	if err == nil && !strings.Contains(b.body.String(), `"active"`) {
		err = errors.New("the desktop is not active: " + b.body.String())
	}
	return took, err
}
