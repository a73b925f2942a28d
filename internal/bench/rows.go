package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// burst is how many screenshots are taken at once.
const burst = 50

// row is one line of a table. What is zero of its goals is none.
type row struct {
	key, title string
	host       bool          // not of a desktop
	bytes      int64         // that a call moves, where that is the point
	factor     float64       // goal: how many times faster than the reference
	below      time.Duration // or how fast at least
	rate       float64       // or how many MB/s
	growth     int64         // and how little the resident memory grows, in bytes
	whole      bool          // and that no reader misses anything
	impossible string        // why the reference cannot do it at all
	rounds     bool          // options.rounds decides how often it is done
	often      bool          // it is short: done many times as often as others
	last       bool          // closes the terminals

	// prepare and finish surround all calls of a bed, where they are not nil.
	prepare, finish func(ctx context.Context, b *bed) error

	// once makes a call. An [incomplete] is not an error but a finding.
	once func(ctx context.Context, b *bed) (time.Duration, error)
}

// incomplete tells how many readers did not get everything.
type incomplete int

func (n incomplete) Error() string { return fmt.Sprintf("%d readers miss something", int(n)) }

const quickEnough = 500 * time.Microsecond

// parity is the factor where deskhand must be no slower: the medians of two that
// are equally fast differ by as much from run to run.
const parity = 0.95

// rows are in the order in which they are measured.
var rows = slices.Concat(desktopRows, hostRows(fileRows, processRows, ptyRows), lastRows)

func hostRows(groups ...[]row) []row {
	all := slices.Concat(groups...)
	for i := range all {
		all[i].host = true
	}
	return all
}

var desktopRows = []row{
	{key: "png-changing", title: "PNG, content changing between calls", factor: 12, once: picture("format=png", true)},
	{key: "png-same", title: "PNG, nothing changed", factor: 100, once: picture("format=png", false)},
	{key: "jpeg", title: "JPEG, changing", factor: 10, once: picture("format=jpeg", true)},
	{key: "webp", title: "WebP, changing", factor: 4, once: picture("format=webp", true)},
	{key: "png-scaled", title: "PNG at scale 0.5, changing", factor: 15, once: picture("format=png&scale=0.5", true)},
	{key: "png-crosshair", title: "PNG with crosshair, changing", factor: 20, once: picture("format=png&showCursor=true", true)},
	{key: "move", title: "mouse move", factor: 150, below: quickEnough, once: move},
	{key: "click", title: "click", factor: 150, below: quickEnough, once: click},
	{key: "position", title: "mouse position", factor: 150, below: quickEnough, once: get("/v1/desktop/mouse/position")},
	{key: "windows", title: "list of windows", factor: 150, below: quickEnough, once: windows},
	{key: "status", title: "status", factor: 150, below: quickEnough, once: get("/v1/desktop/status")},
	{key: "type", title: "type 100 ASCII characters, delayMs 0", factor: 20, once: typeText},
	{key: "burst", title: fmt.Sprintf("%d screenshots at once, wall time", burst), factor: 40, rounds: true, once: manyPictures},
}

var lastRows = []row{
	{key: "start", title: "desktop start", factor: 1.2, last: true, once: restart},
}

func get(path string) func(context.Context, *bed) (time.Duration, error) {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		return b.call(ctx, http.MethodGet, path, nil)
	}
}

// repeats bounds how often a picture is taken until it shows a change.
const repeats = 20

// picture takes a screenshot, of a screen that has changed or of one that has
// not. One that does not show the change, because the machine was too busy to
// draw it in time, is counted and taken again.
func picture(query string, changing bool) func(context.Context, *bed) (time.Duration, error) {
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
			if err := pause(ctx, drawTime); err != nil {
				return 0, err
			}
		}
		return 0, fmt.Errorf("%s: the picture does not change", b.name)
	}
}

// spot is a place in a terminal, another one at every call.
func (b *bed) spot() map[string]any {
	b.turn++
	return map[string]any{"x": 100 + b.turn%500, "y": 100 + b.turn%200}
}

func move(ctx context.Context, b *bed) (time.Duration, error) {
	return b.call(ctx, http.MethodPost, "/v1/desktop/mouse/move", b.spot())
}

func click(ctx context.Context, b *bed) (time.Duration, error) {
	return b.call(ctx, http.MethodPost, "/v1/desktop/mouse/click", b.spot())
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

// typeText types into the terminal that has the focus. Its answer may come
// before the text does; characters that do not come at all are counted.
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

// manyPictures takes screenshots at the same time, after a change.
func manyPictures(ctx context.Context, b *bed) (time.Duration, error) {
	if err := b.change(ctx); err != nil {
		return 0, err
	}
	var group errgroup.Group
	begin := time.Now()
	for range burst {
		group.Go(func() error {
			req, err := b.request(ctx, http.MethodGet, "/v1/desktop/screenshot", nil)
			if err != nil {
				return err
			}
			return do(b.http, req, io.Discard)
		})
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
