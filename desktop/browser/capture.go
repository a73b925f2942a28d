package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// Evaluate is a script for a page.
type Evaluate struct {
	Tab        string       `json:"tab,omitempty"`       // empty: the active one
	Expression string       `json:"expression"`          // JavaScript; a promise is awaited
	Timeout    Milliseconds `json:"timeoutMs,omitempty"` // 0: 10000; at most 600000
}

// maxValue bounds the value of a script, in bytes of JSON.
const maxValue = 4 << 20

// Value is the value of a script.
type Value struct {
	Value json.RawMessage `json:"value"` // null if it is undefined
}

// Evaluate evaluates a script in a page and returns its value. It returns a *ScriptError if the
// script throws, a *DialogError if a dialog has stopped the page for a second, ErrTooLarge if the
// value has more than 4 MiB or 250,000 elements and members, and a *desktop.DeadlineError after the
// timeout.
func (b *Browser) Evaluate(ctx context.Context, e Evaluate) (Value, error) {
	e.Timeout = cmp.Or(e.Timeout, 10_000)
	switch err := checkTimeout(e.Timeout); {
	case err != nil:
		return Value{}, err
	case e.Expression == "" || len(e.Expression) > maxFill:
		return Value{}, &InvalidError{"Expression", "must have 1 byte to 1 MiB"}
	}
	ctx, cancel := e.Timeout.limit(ctx, "evaluate", 0)
	defer cancel()
	t, session, err := b.tab(ctx, e.Tab)
	if err == nil {
		err = b.admit(ctx, "evaluate", b.infoOf(t).shownURL)
	}
	if err == nil {
		err = b.awaitNoDialog(ctx, session)
	}
	value := json.RawMessage("null")
	if err == nil {
		err = b.evaluateLarge(ctx, session, 0, e.Expression, &value, maxValue)
	}
	if err == nil && len(value) > maxValue {
		err = fmt.Errorf("%w: the value has more than 4 MiB", ErrTooLarge)
	}
	if err != nil {
		return Value{}, explain(ctx, err)
	}
	return Value{value}, nil
}

// Screenshot is a picture of a page.
type Screenshot struct {
	Tab     string `json:"tab,omitempty"`
	Full    bool   `json:"full,omitempty"`    // the whole page, at most 16384 pixels wide and high
	Format  string `json:"format,omitempty"`  // "png", "jpeg" or "webp"; empty: png
	Quality int    `json:"quality,omitempty"` // of jpeg and webp, 1 to 100; 0: 80
}

// maxPicture bounds the edges of a picture, and maxPictureArea its area.
const (
	maxPicture     = 16384
	maxPictureArea = 1 << 26
)

// ErrHidden is returned by Screenshot if the browser draws no picture of a tab that another one
// hides. Chromium draws such a tab immediately or not at all.
var ErrHidden = errors.New("the tab is hidden, and the browser has drawn no picture of it; activate it first")

// hiddenLimit is how long the browser may take to draw a hidden tab.
const hiddenLimit = 5 * time.Second

// Screenshot returns a picture of a page, as the browser draws it: the part in the window, or the
// whole page. Its limit is 60 s. Of a tab that is hidden it returns a picture or ErrHidden. The
// page has another size while the browser draws the whole of it, so that is subject to control and to
// desktop.Config.Policy.
func (b *Browser) Screenshot(ctx context.Context, s Screenshot) ([]byte, error) {
	s.Format, s.Quality = cmp.Or(s.Format, "png"), cmp.Or(s.Quality, 80)
	switch {
	case !slices.Contains([]string{"png", "jpeg", "webp"}, s.Format):
		return nil, &InvalidError{"Format", "must be png, jpeg or webp"}
	case s.Quality < 1 || s.Quality > 100:
		return nil, &InvalidError{"Quality", "must be between 1 and 100"}
	}
	ctx, cancel := captureLimit.limit(ctx, "screenshot", 0)
	defer cancel()
	t, session, err := b.tab(ctx, s.Tab)
	if err != nil {
		return nil, explain(ctx, err)
	}
	params := map[string]any{"format": s.Format}
	if s.Format != "png" {
		params["quality"] = s.Quality
	}
	if s.Full {
		if err := b.admit(ctx, "screenshot", b.infoOf(t).shownURL); err != nil {
			return nil, explain(ctx, err)
		}
		var v struct {
			CSSContentSize struct{ Width, Height float64 } `json:"cssContentSize"`
		}
		if err := b.call(ctx, session, "Page.getLayoutMetrics", nil, &v); err != nil {
			return nil, explain(ctx, err)
		}
		width := max(1, math.Min(v.CSSContentSize.Width, maxPicture))
		height := max(1, math.Min(v.CSSContentSize.Height, math.Min(maxPicture, maxPictureArea/width)))
		params["captureBeyondViewport"] = true
		params["clip"] = map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
	}
	hidden := s.Tab != "" && b.isHidden(ctx, t, session)
	if hidden {
		ctx, cancel = context.WithTimeoutCause(ctx, hiddenLimit, ErrHidden)
		defer cancel()
	}
	var v struct{ Data []byte }
	err = b.call(ctx, session, "Page.captureScreenshot", params, &v)
	if s.Tab != "" && err != nil && strings.Contains(err.Error(), "Not attached to an active page") {
		err = ErrHidden
	}
	return v.Data, explain(ctx, err)
}

// isHidden reports whether a page says that it is hidden.
func (b *elements) isHidden(ctx context.Context, t *tab, session string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a dialog may have stopped it
	defer cancel()
	var shows int
	err := b.runScript(ctx, frame{id: t.id, session: session}, "shows", &shows)
	return err == nil && shows == 0
}

// captureLimit bounds pictures and documents of pages.
const captureLimit Milliseconds = 60_000

// PDF is a document of a page.
type PDF struct {
	Tab        string `json:"tab,omitempty"`
	Landscape  bool   `json:"landscape,omitempty"`
	Background bool   `json:"background,omitempty"` // print backgrounds
	Pages      string `json:"pages,omitempty"`      // such as "1-3"; empty: all
}

// PDF returns a page as a PDF file. Its limit is 60 s.
func (b *Browser) PDF(ctx context.Context, p PDF) ([]byte, error) {
	ctx, cancel := captureLimit.limit(ctx, "pdf", 0)
	defer cancel()
	_, session, err := b.tab(ctx, p.Tab)
	if err != nil {
		return nil, explain(ctx, err)
	}
	var v struct{ Data []byte }
	err = b.call(ctx, session, "Page.printToPDF", map[string]any{
		"landscape": p.Landscape, "printBackground": p.Background, "pageRanges": p.Pages,
	}, &v)
	return v.Data, explain(ctx, err)
}

// TextQuery selects what Text returns.
type TextQuery struct {
	Tab   string `json:"tab,omitempty"`
	Limit int    `json:"limit,omitempty"` // characters; 0: 100000; at most 1000000
}

// PageText is the text of a page.
type PageText struct {
	URL       string `json:"url"`
	Title     string `json:"title"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated"`
}

// Text returns the visible text of a page, which it cuts after TextQuery.Limit characters.
func (b *Browser) Text(ctx context.Context, q TextQuery) (PageText, error) {
	q.Limit = cmp.Or(q.Limit, 100_000)
	if q.Limit < 1 || q.Limit > 1_000_000 {
		return PageText{}, &InvalidError{"Limit", "must be between 1 and 1000000"}
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "text", 0)
	defer cancel()
	t, session, err := b.tab(ctx, q.Tab)
	var p PageText
	if err == nil {
		err = b.runLarge(ctx, frame{id: t.id, session: session}, escaped*q.Limit, "text", &p, q.Limit)
	}
	if err != nil {
		return PageText{}, explain(ctx, err)
	}
	characters := 0
	for i := range p.Text {
		if characters++; characters > q.Limit {
			p.Text, p.Truncated = p.Text[:i], true
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.URL, p.Title = t.info.URL, t.info.Title
	return p, nil
}

// TabQuery names a tab.
type TabQuery struct {
	Tab string `json:"tab,omitempty"` // empty: the active one
}

// ConsoleLog is what a page has written to its console: the latest 200 messages, or fewer if
// they exceed 1 MiB as JSON. A browser keeps 64 MiB of messages and requests of all tabs, and drops the
// oldest.
type ConsoleLog struct {
	Messages []ConsoleMessage `json:"messages"`
	Dropped  uint64           `json:"dropped"` // the number of earlier messages
}

// Console returns the latest messages on the console of a tab.
func (b *Browser) Console(ctx context.Context, q TabQuery) (ConsoleLog, error) {
	t, _, err := b.tab(ctx, q.Tab)
	if err != nil {
		return ConsoleLog{}, err
	}
	b.mu.Lock()
	all, dropped := slices.Clone(t.console.values), t.console.dropped
	b.mu.Unlock()
	messages, older := newest(all)
	return ConsoleLog{messages, dropped + older}, nil
}

// NetworkLog is what a page has requested: the latest 200 requests that have ended, and those
// under way. See also [ConsoleLog].
type NetworkLog struct {
	Requests []NetworkRequest `json:"requests"`
	Dropped  uint64           `json:"dropped"` // the number of earlier requests
}

// Network returns the latest requests of a tab.
func (b *Browser) Network(ctx context.Context, q TabQuery) (NetworkLog, error) {
	t, _, err := b.tab(ctx, q.Tab)
	if err != nil {
		return NetworkLog{}, err
	}
	b.mu.Lock()
	all, dropped := slices.Clone(t.network.values), t.network.dropped
	var under []NetworkRequest
	for _, r := range t.requests {
		under = append(under, *r)
	}
	b.mu.Unlock()
	slices.SortFunc(under, func(x, y NetworkRequest) int { return x.Time.Compare(y.Time) })
	requests, older := newest(append(all, under[:min(len(under), ringSize)]...))
	return NetworkLog{requests, dropped + older}, nil
}

// maxLog bounds the values of a log, in bytes of JSON. With the members around them, an agent gets
// them in an answer of 1 MiB.
const maxLog = 1<<20 - 1<<10

// newest returns the last values that have at most maxLog bytes as JSON, and the number of the others.
func newest[T record](all []T) (values []T, older uint64) {
	left := maxLog
	for i, v := range slices.Backward(all) {
		text, _ := plainjson.Marshal(v) // it has texts and numbers only
		if left -= len(text) + 1; left < 0 {
			return all[i+1:], uint64(i + 1) //nolint:gosec // not negative
		}
	}
	return append([]T{}, all...), 0
}
