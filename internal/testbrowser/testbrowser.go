// Package testbrowser opens pages in a Chromium for tests.
//
// [Open] starts a browser without a window, which ends with the test, and fails
// the test when a script of the page does. [OpenStrict] fails it for all that a
// page of ours must not do. Tests that use it say so with
// testx11.Require(t, "chromium").
package testbrowser

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	pageapi "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds each action of a page.
const patience = time.Minute

// Open opens a page in a new browser with further options. It returns the context of
// the browser's tab, for [Do] and the other functions of this package.
func Open(tb testing.TB, url string, more ...chromedp.ExecAllocatorOption) context.Context {
	tb.Helper()
	ctx := start(tb, more...)
	watch(ctx, tb, exceptions)
	navigate(ctx, tb, url)
	return ctx
}

// OpenStrict is like [Open], but the test also fails for requests to other origins, and
// for errors and warnings on the console, which include violations of the page's content
// security policy. Scripts run before the page's.
func OpenStrict(tb testing.TB, url string, scripts ...string) context.Context {
	tb.Helper()
	ctx := start(tb)
	strict(ctx, tb, url, scripts)
	return ctx
}

// Window opens a page in another window of the browser, as [OpenStrict] does.
func Window(ctx context.Context, tb testing.TB, url string, scripts ...string) context.Context {
	tb.Helper()
	ctx, cancel := chromedp.NewContext(ctx)
	tb.Cleanup(cancel)
	strict(ctx, tb, url, scripts)
	return ctx
}

// start starts a browser. It tries again, because on a busy machine Chromium sometimes
// exits while it starts.
func start(tb testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	tb.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		tb.Fatal(err)
	}
	for range 3 {
		ctx, end := begin(tb, path, more)
		if err = chromedp.Do(ctx); err == nil {
			tb.Cleanup(end)
			return ctx
		}
		end()
		tb.Log(err)
	}
	tb.Fatal("no browser could be started")
	return nil
}

func begin(tb testing.TB, path string, more []chromedp.ExecAllocatorOption) (ctx context.Context, end func()) {
	tb.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(1400, 900), chromedp.UserDataDir(tb.TempDir()), chromedp.Env("HOME=" + tb.TempDir()),
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(tb.Context(), append(options, more...)...)
	ctx, cancel := chromedp.NewContext(alloc)
	return ctx, func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end
		cancel()
		cancelAlloc()
	}
}

func strict(ctx context.Context, tb testing.TB, page string, scripts []string) {
	tb.Helper()
	own, err := url.Parse(page)
	if err != nil {
		tb.Fatal(err)
	}
	watch(ctx, tb, func(ev any) string {
		if fault := exceptions(ev); fault != "" {
			return fault
		}
		return misdeeds(ev, own.Host)
	})
	for _, script := range scripts {
		params := pageapi.AddScriptToEvaluateOnNewDocumentParams{Source: script}
		if _, err := chromedp.Call(ctx, pageapi.AddScriptToEvaluateOnNewDocument, params); err != nil {
			tb.Fatal(err)
		}
	}
	navigate(ctx, tb, page)
}

func navigate(ctx context.Context, tb testing.TB, url string) {
	tb.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		tb.Fatal(err)
	}
}

// watch makes the test fail, at its end, for each event that is a fault.
func watch(ctx context.Context, tb testing.TB, faultOf func(ev any) string) {
	tb.Helper()
	var mu sync.Mutex
	var faults []string
	tb.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) > 0 {
			tb.Errorf("the page has faults: %q", faults)
		}
	})
	// This makes the tab, which ends with the context that it is made with.
	err := chromedp.Listen(ctx, func(ev any) {
		if fault := faultOf(ev); fault != "" {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, fault)
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// exceptions returns the text of an exception that the page's scripts do not catch.
func exceptions(ev any) string {
	e, ok := ev.(*runtime.EventExceptionThrown)
	if !ok {
		return ""
	}
	d := e.ExceptionDetails
	fault := fmt.Sprintf("%s %s:%d", d.Text, d.URL, d.LineNumber+1)
	if d.Exception != nil {
		fault += " " + d.Exception.Description
	}
	return fault
}

// misdeeds returns the text of an action that a strict page must not do.
func misdeeds(ev any, host string) string {
	used := ""
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			return fmt.Sprintf("console: %s", e.Type)
		}
	case *log.EventEntryAdded:
		// What a server refuses may well be the test's subject, for good or for now.
		refused := e.Entry.Source == log.EntrySourceNetwork &&
			(strings.Contains(e.Entry.Text, "responded with a status of 4") || strings.Contains(e.Entry.Text, "responded with a status of 503") ||
				// An event stream is cut off when its token ends.
				strings.Contains(e.Entry.Text, "ERR_INCOMPLETE_CHUNKED_ENCODING") && strings.Contains(e.Entry.URL, "/events?access_token="))
		if (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) && !refused {
			return fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		used = e.Request.URL
	case *network.EventWebSocketCreated:
		used = e.URL
	}
	if at, err := url.Parse(used); err != nil || at.Host != "" && at.Host != host {
		return "a request to another origin: " + used
	}
	return ""
}

// Do takes steps in the tab.
func Do(ctx context.Context, tb testing.TB, steps ...chromedp.Action[chromedp.Void]) {
	tb.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := chromedp.Do(limited, steps...); err != nil {
		tb.Fatal(err)
	}
}

// Evaluate runs a script in the page and returns its value.
func Evaluate[T any](ctx context.Context, tb testing.TB, script string) T {
	tb.Helper()
	return evaluate[T](ctx, tb, script)
}

// Await is [Evaluate] for a script whose value is a promise. It returns the value of the
// promise.
func Await[T any](ctx context.Context, tb testing.TB, script string) T {
	tb.Helper()
	return evaluate[T](ctx, tb, script, chromedp.EvalAwaitPromise)
}

func evaluate[T any](ctx context.Context, tb testing.TB, script string, options ...chromedp.EvaluateOption) T {
	tb.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, err := chromedp.Run(limited, chromedp.Evaluate[T](script, options...))
	if err != nil {
		tb.Fatalf("%.80s: %v", script, err)
	}
	return result
}

// Holds waits until a script's value is true.
func Holds(ctx context.Context, tb testing.TB, script string) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for t := time.NewTicker(25 * time.Millisecond); !Evaluate[bool](ctx, tb, script); <-t.C {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", patience, script)
		}
	}
}
