package browser_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestHangs stops the processes of a browser. Every call must end by its timeout, other input
// must reach the desktop, and Close must end the browser.
func TestHangs(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	ctx := t.Context()
	navigate(t, b, "data:text/html,<title>Form</title><input aria-label=Name>")
	field := el(refOf(t, b, "textbox", "Name"))
	tabs, err := b.Tabs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range browsersOf(t, filepath.Join(d.Status().Home, ".config/deskhand/browser")) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	begun := time.Now()
	for name, call := range map[string]func() error{
		"fill": func() error { return b.Fill(ctx, browser.Fill{Element: field, Text: strings.Repeat("x", 1<<20)}) },
		"fill again": func() error {
			return b.Fill(ctx, browser.Fill{Element: css("input"), Text: strings.Repeat("x", 1<<20)})
		},
		"evaluate": func() error {
			_, err := b.Evaluate(ctx, browser.Evaluate{Expression: strings.Repeat(" ", 1<<19) + "1", Timeout: 500})
			return err
		},
		"navigate": func() error {
			_, err := b.Navigate(ctx, browser.Navigate{URL: "about:blank", Timeout: 500})
			return err
		},
		"click": func() error {
			_, err := b.Click(ctx, browser.Click{Element: field, Timeout: 500})
			return err
		},
		"text": func() error {
			_, err := b.Text(ctx, browser.TextQuery{})
			return err
		},
		"tabs": func() error {
			_, err := b.Tabs(ctx)
			return err
		},
		"new tab": func() error {
			_, err := b.NewTab(ctx, "")
			return err
		},
		"activate tab": func() error { return b.ActivateTab(ctx, tabs[0].ID) },
		"close tab":    func() error { return b.CloseTab(ctx, tabs[0].ID) },
	} {
		calls.Go(func() {
			err := call()
			if _, ok := errors.AsType[*desktop.DeadlineError](err); !ok || time.Since(begun) > 25*time.Second {
				t.Errorf("%s: %v after %s", name, err, time.Since(begun))
			}
		})
	}
	for x := range 20 {
		if _, err := d.Move(ctx, desktop.Move{At: desktop.Point{X: x, Y: 5}}); err != nil {
			t.Error("other input:", err)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Error("other input waits for the browser:", took)
	}
	calls.Wait()
	if err := b.Close(); err != nil {
		t.Error("the browser does not end:", err)
	}
	if left := browsersOf(t, filepath.Join(d.Status().Home, ".config/deskhand/browser")); len(left) > 0 {
		t.Error("processes are left:", left)
	}
}
