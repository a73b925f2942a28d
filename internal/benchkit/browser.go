package benchkit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/chromedp/chromedp"
)

// Browser is a Chromium with one tab.
type Browser struct {
	tab   context.Context //nolint:containedctx // holds chromedp's tab
	close func()
}

// OpenBrowser starts a Chromium with its files in dir. It has no window, unless env
// names a display, all of which it then covers. The caller must call Close.
func OpenBrowser(dir string, width, height int, env ...string) (*Browser, error) {
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(width, height), chromedp.UserDataDir(dir), chromedp.Env(append(env, "HOME="+dir)...),
	}
	if len(env) == 0 {
		options = append(options, chromedp.Headless)
	} else {
		options = append(options, chromedp.Flag("kiosk", true))
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	tab, cancel := chromedp.NewContext(alloc)
	b := &Browser{tab: tab, close: func() {
		_ = chromedp.Cancel(tab) // waits for the browser's end
		cancel()
		stop()
	}}
	if err := chromedp.Do(tab); err != nil {
		b.Close()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() { b.close() }

// Navigate loads a page.
func (b *Browser) Navigate(ctx context.Context, url string) error {
	return b.inTab(ctx, func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.Navigate(url)) })
}

// inTab calls f with the tab's context, which ends with ctx.
func (b *Browser) inTab(ctx context.Context, f func(context.Context) error) error {
	tab, cancel := context.WithCancelCause(b.tab)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return f(tab)
}

// Ask runs a function of the page and decodes what it resolves with into out,
// unless that is nil.
func (b *Browser) Ask(ctx context.Context, out any, function string, args ...any) error {
	if args == nil {
		args = []any{}
	}
	list, err := json.Marshal(args)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("Promise.resolve(%s(...%s)).then(v => JSON.stringify(v ?? null))", function, list)
	var text string
	err = b.inTab(ctx, func(ctx context.Context) (err error) {
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
