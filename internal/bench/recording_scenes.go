package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// scene is something to record.
type scene struct {
	key, title string
	processor  float64 // goal: at most that much of a core
	ratio      float64 // or that much of what the reference uses
	size       float64 // and at most that many times its bytes
	ssim       float64 // and at least that much likeness
	open       func(context.Context, *bed) (*stage, error)
}

var scenes = []scene{
	{key: "record-idle", title: "nothing changes", processor: 0.01, open: openIdle},
	{key: "record-text", title: "random text scrolls", ratio: 0.9, size: 1, ssim: 0.98, open: openText},
	{key: "record-page", title: "a browser's page scrolls", size: 0.5, open: openPage},
}

// stage is a scene that is being shown.
type stage struct {
	hold, goOn, close func(context.Context) error
}

func nothing(context.Context) error { return nil }

func openIdle(context.Context, *bed) (*stage, error) {
	return &stage{hold: nothing, goOn: nothing, close: nothing}, nil
}

// textBeat is how often every terminal prints new lines.
const textBeat = time.Second / recordedRate

// openText has the terminals print.
func openText(_ context.Context, b *bed) (*stage, error) {
	var held sync.Mutex // by the printer while it prints, or by the probe
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		beat := time.NewTicker(textBeat)
		defer beat.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-beat.C:
			}
			held.Lock()
			err := b.printAll()
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
			return pause(ctx, 2*drawTime) // what was printed is drawn
		},
		goOn:  func(context.Context) error { held.Unlock(); return nil },
		close: func(context.Context) error { close(stop); return <-done },
	}, nil
}

func (b *bed) printAll() error {
	for _, t := range b.terminals {
		if err := t.print(b.text.lines(t.place.columns)); err != nil {
			return err
		}
	}
	return b.await()
}

// scrolling is the script of the page: it scrolls while the bench wants it to,
// and tells when it has stopped.
const scrolling = `let on = false;
const step = () => { if (on) { scrollBy(0, 6); if (scrollY + innerHeight >= document.body.scrollHeight - 8) scrollTo(0, 0); } requestAnimationFrame(step); };
const events = new EventSource("steps");
events.onmessage = ({ data }) => { on = data === "go"; requestAnimationFrame(() => requestAnimationFrame(() => fetch("done"))); };
step();`

// openPage has a browser scroll a page.
func openPage(ctx context.Context, b *bed) (*stage, error) {
	steps, done := make(chan string), make(chan struct{}, 8)
	over := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page()) })
	mux.HandleFunc("/done", func(http.ResponseWriter, *http.Request) { done <- struct{}{} })
	mux.HandleFunc("/steps", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case step := <-steps:
				fmt.Fprintf(w, "data: %s\n\n", step)
			case <-over:
				return
			case <-r.Context().Done():
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	tell := func(step string) func(context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			select {
			case steps <- step:
			case <-ctx.Done():
				return errors.New("the browser did not load the page")
			}
			select {
			case <-done:
				return pause(ctx, 2*drawTime)
			case <-ctx.Done():
				return errors.New("the page does not answer")
			}
		}
	}
	s := &stage{hold: tell("hold"), goOn: tell("go")}
	pid := 0
	s.close = func(context.Context) error {
		close(over)
		server.Close()
		if pid == 0 {
			return nil
		}
		return unix.Kill(pid, unix.SIGTERM)
	}
	var err error
	if pid, err = b.openBrowser(ctx, server.URL); err == nil {
		err = s.goOn(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

// openBrowser shows a page over the whole desktop, and returns its process.
func (b *bed) openBrowser(ctx context.Context, url string) (pid int, err error) {
	file := filepath.Join(b.server.Home, "browser-pid")
	_, err = b.call(ctx, http.MethodPost, "/v1/desktop/launch", map[string]any{
		"app": "sh", "args": []string{
			"-c", `echo $$ >"$0.new" && mv "$0.new" "$0" && exec chromium "$@"`, file,
			"--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
			"--user-data-dir=" + filepath.Join(b.server.Home, "chromium"), "--app=" + url,
			"--window-position=0,0", fmt.Sprintf("--window-size=%d,%d", screenWidth, screenHeight),
		},
	})
	if err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if text, err := os.ReadFile(file); err == nil {
			return strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the browser does not start")
}

const pageTitle = "A page that scrolls"

// page is a long page of text, headings and coloured boxes, the same each time.
func page() string {
	random := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><meta charset="utf-8"><title>%s</title><style>body{font:16px/1.5 sans-serif;margin:0 12%%;color:#222}
		.box{height:140px;margin:16px 0;border-radius:8px}code{display:block;background:#f3f3f3;padding:12px;white-space:pre}</style>`, pageTitle)
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
