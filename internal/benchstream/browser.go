package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"
)

// browser starts headless Chromiums, one at a time.
type browser struct {
	ctx    context.Context //nolint:containedctx // holds chromedp's allocator
	cancel context.CancelFunc
	dir    string
	made   int
}

func newBrowser(dir string) *browser { return &browser{dir: dir} }

// start starts a Chromium, which replaces the previous one.
func (b *browser) start() error {
	b.close()
	b.made++
	profile := filepath.Join(b.dir, fmt.Sprintf("browser-%d", b.made))
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(screenWidth, screenHeight), chromedp.UserDataDir(profile), chromedp.Env("HOME="+profile))
	ctx, cancel := chromedp.NewContext(alloc)
	b.ctx, b.cancel = ctx, func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end
		cancel()
		stop()
	}
	return chromedp.Do(ctx)
}

func (b *browser) close() {
	if b.cancel != nil {
		b.cancel()
		b.cancel = nil
	}
}

// viewer is the page in the browser.
type viewer struct {
	b   *bench
	ctx context.Context //nolint:containedctx // the tab's
}

// viewer opens the page in the browser's tab.
func (b *bench) viewer(ctx context.Context) (*viewer, error) {
	if b.browser.cancel == nil {
		if err := b.browser.start(); err != nil {
			return nil, fmt.Errorf("start Chromium: %w", err)
		}
	}
	v := &viewer{b: b, ctx: b.browser.ctx}
	return v, v.inTab(ctx, func(ctx context.Context) error {
		return chromedp.Do(ctx, chromedp.Navigate(b.page.url))
	})
}

// inTab calls f with the tab's context, which ends with ctx.
func (v *viewer) inTab(ctx context.Context, f func(context.Context) error) error {
	tab, cancel := context.WithCancelCause(v.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return f(tab)
}

// ask runs a function of the page and decodes what it resolves with into out,
// unless that is nil.
func (v *viewer) ask(ctx context.Context, limit time.Duration, out any, function string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if args == nil {
		args = []any{}
	}
	list, err := json.Marshal(args)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("Promise.resolve(%s(...%s)).then(v => JSON.stringify(v ?? null))", function, list)
	var text string
	err = v.inTab(ctx, func(ctx context.Context) (err error) {
		text, err = chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
		return err
	})
	if err != nil {
		return fmt.Errorf("%s in the page: %w", function, err)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal([]byte(text), out)
}

// setClock sets the page's clock by this program's. The page reads its clock
// between the question and the answer, so each answer bounds the difference. A few
// answers bound it to some tenths of a millisecond.
func (v *viewer) setClock(ctx context.Context) error {
	if err := v.ask(ctx, patience, nil, "setClock", 0); err != nil {
		return err
	}
	least, most := math.Inf(-1), math.Inf(1)
	for range 30 {
		var page float64
		before := time.Now()
		if err := v.ask(ctx, patience, &page, "now"); err != nil {
			return err
		}
		after := time.Now()
		least, most = max(least, milliseconds(before)-page), min(most, milliseconds(after)-page)
	}
	return v.ask(ctx, patience, nil, "setClock", (least+most)/2)
}

// milliseconds since 1970.
func milliseconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

// steps are the milliseconds after which parts of a connection were done.
type steps map[string]float64

// connect begins to watch and returns when the first picture is presented. It asks
// the server for at most limit kbit/s, unless that is 0.
func (v *viewer) connect(ctx context.Context, limit int) (steps, error) {
	var s steps
	err := v.ask(ctx, patience, &s, "connect", v.b.signaling(), limit)
	return s, err
}

// disconnect leaves, and waits until the server has noticed.
func (v *viewer) disconnect(ctx context.Context) error {
	if err := v.ask(ctx, patience, nil, "disconnect"); err != nil {
		return err
	}
	return v.b.awaitNoViewers(ctx)
}

// counts are the browser's statistics of the received video.
type counts struct {
	Bytes, Decoded, Keys, Dropped, Freezes, PLIs, NACKs, Lost, Emitted float64
	Waited, Decoding                                                   float64 // seconds
}

func (v *viewer) counts(ctx context.Context) (counts, error) {
	var c counts
	err := v.ask(ctx, patience, &c, "counts")
	return c, err
}
