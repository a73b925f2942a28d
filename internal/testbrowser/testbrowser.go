// Package testbrowser opens pages in a Chromium for tests.
//
// [Open] starts a browser without a window, which ends with the test, and fails
// the test when a script of the page does. Tests that use it say so with
// testx11.Require(t, "chromium").
package testbrowser

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take for what is asked of it.
const patience = 30 * time.Second

// Open opens a page in a browser of its own. The context is that of its tab,
// for [Do] and the other functions here.
func Open(tb testing.TB, url string) context.Context {
	tb.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		tb.Fatal(err)
	}
	alloc, cancel := chromedp.NewExecAllocator(tb.Context(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(1400, 900), chromedp.UserDataDir(tb.TempDir()), chromedp.Env("HOME="+tb.TempDir()))
	tb.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	tb.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end
		cancel()
	})
	if err := failOnExceptions(ctx, tb); err != nil {
		tb.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		tb.Fatal(err)
	}
	return ctx
}

// failOnExceptions makes the test fail, at its end, for each exception that the
// page's scripts do not catch.
func failOnExceptions(ctx context.Context, tb testing.TB) error {
	var mu sync.Mutex
	var faults []string
	tb.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) > 0 {
			tb.Errorf("the page's script failed: %q", faults)
		}
	})
	return chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*runtime.EventExceptionThrown); ok {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL))
		}
	})
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
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, err := chromedp.Run(limited, chromedp.Evaluate[T](script))
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
