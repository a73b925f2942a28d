package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// scene is something to record.
type scene struct {
	key, title string
	processor  float64 // goal: at most this much of a core
	ratio      float64 // or this much of what the reference uses
	size       float64 // and at most this many times its bytes
	ssim       float64 // and at least this similarity
	open       func(context.Context, *bed) (*stage, error)
}

var scenes = []scene{
	{key: "record-idle", title: "nothing changes", processor: 0.01, open: openIdle},
	{key: "record-text", title: "random text scrolls", ratio: 0.9, size: 1, ssim: 0.98, open: openText},
	{key: "record-page", title: "a browser's page scrolls", size: 0.5, open: openPage},
}

// stage is a scene that is being shown. resume continues it after hold.
type stage struct {
	hold, resume func(context.Context) error
	close        func() error
}

func openIdle(context.Context, *bed) (*stage, error) {
	nothing := func(context.Context) error { return nil }
	return &stage{hold: nothing, resume: nothing, close: func() error { return nil }}, nil
}

// openText has every terminal print new lines, as often as pictures are recorded.
func openText(_ context.Context, b *bed) (*stage, error) {
	var held sync.Mutex // by the printer while it prints, or by the probe
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		beat := time.NewTicker(time.Second / recordedRate)
		defer beat.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-beat.C:
			}
			held.Lock()
			err := b.print((*script).lines)
			held.Unlock()
			if err != nil {
				done <- err
				return
			}
		}
	}()
	return &stage{
		hold: func(ctx context.Context) error {
			held.Lock()
			return benchkit.Pause(ctx, 2*drawTime) // the printed lines are drawn
		},
		resume: func(context.Context) error { held.Unlock(); return nil },
		close:  func() error { close(stop); return <-done },
	}, nil
}

// scrolling is the script of the page.
const scrolling = `let on = false;
const step = () => { if (on) { scrollBy(0, 6); if (scrollY + innerHeight >= document.body.scrollHeight - 8) scrollTo(0, 0); } requestAnimationFrame(step); };
const setScrolling = (next) => { on = next; return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); };
step();`

// openPage has a browser scroll a page over the whole desktop.
func openPage(ctx context.Context, b *bed) (*stage, error) {
	if _, err := b.call(ctx, http.MethodGet, "/v1/desktop/display/info", nil); err != nil {
		return nil, err
	}
	var display struct{ Display, XAuthority string }
	if err := json.Unmarshal(b.body.Bytes(), &display); err != nil {
		return nil, err
	}
	file := filepath.Join(b.server.Home, "page.html")
	if err := os.WriteFile(file, []byte(page()), 0o600); err != nil {
		return nil, err
	}
	browser, err := benchkit.OpenBrowser(filepath.Join(b.server.Home, "chromium"), screenWidth, screenHeight,
		"DISPLAY="+display.Display, "XAUTHORITY="+display.XAuthority)
	if err != nil {
		return nil, err
	}
	scroll := func(on bool) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := browser.Ask(ctx, nil, "setScrolling", on); err != nil {
				return err
			}
			return benchkit.Pause(ctx, 2*drawTime)
		}
	}
	s := &stage{hold: scroll(false), resume: scroll(true), close: func() error { browser.Close(); return nil }}
	if err = browser.Navigate(ctx, "file://"+file); err == nil {
		err = s.resume(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// page is a long page of text, headings and coloured boxes, the same each time.
func page() string {
	random := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	b.WriteString(`<!doctype html><meta charset="utf-8"><title>A page that scrolls</title><style>body{font:16px/1.5 sans-serif;margin:0 12%;color:#222}
		.box{height:140px;margin:16px 0;border-radius:8px}code{display:block;background:#f3f3f3;padding:12px;white-space:pre}</style>`)
	words := func(n int) {
		for range n {
			for range 2 + random.IntN(9) {
				b.WriteByte(byte('a' + random.IntN(26)))
			}
			b.WriteByte(' ')
		}
	}
	for n := range 60 {
		fmt.Fprintf(&b, "<h2>%d ", n+1)
		words(4)
		b.WriteString("</h2><p>")
		words(120)
		b.WriteString("</p>")
		if n%3 == 0 {
			fmt.Fprintf(&b, `<div class="box" style="background:linear-gradient(%ddeg,#%06x,#%06x)"></div>`, random.IntN(360), random.IntN(1<<24), random.IntN(1<<24))
		}
		if n%4 == 0 {
			b.WriteString("<code>")
			for range 8 {
				words(9)
				b.WriteByte('\n')
			}
			b.WriteString("</code>")
		}
	}
	return b.String() + "<script>" + scrolling + "</script>"
}
