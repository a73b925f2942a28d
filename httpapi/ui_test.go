package httpapi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testx11"
)

// browse opens the page in a browser without a window.
func browse(t *testing.T, url string) context.Context {
	t.Helper()
	testx11.Require(t, "chromium")
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	alloc, cancel := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(1400, 900), chromedp.UserDataDir(t.TempDir()), chromedp.Env("HOME="+t.TempDir()))
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end
		cancel()
	})
	var mu sync.Mutex
	var faults []string
	err = chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*runtime.EventExceptionThrown); ok {
			mu.Lock()
			faults = append(faults, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL))
			mu.Unlock()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) > 0 {
			t.Errorf("the page's script failed: %q", faults)
		}
	})
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// evaluate runs a script in the page.
func evaluate[T any](ctx context.Context, t *testing.T, script string) T {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	result, err := chromedp.Run(limited, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("%.80s: %v", script, err)
	}
	return result
}

// holds waits until a script's value is true.
func holds(ctx context.Context, t *testing.T, script string) {
	t.Helper()
	eventually(t, script, func() bool { return evaluate[bool](ctx, t, script) })
}

func do(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(limited, steps...); err != nil {
		t.Fatal(err)
	}
}

const stateIs = `document.querySelector("#state").dataset.state === %q`

func TestPage(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	s := serve(t, Config{})
	ctx := browse(t, s.url+"/?token="+s.Token())
	holds(ctx, t, fmt.Sprintf(stateIs, "inactive"))
	if at := evaluate[string](ctx, t, "location.href"); at != s.url+"/ui/" {
		t.Errorf("the page is at %s, want it without the token", at)
	}
	do(ctx, t, chromedp.Click("#off-start"))
	holds(ctx, t, fmt.Sprintf(stateIs, "active"))
	holds(ctx, t, `!document.querySelector("#screen").hidden && document.querySelector("#screen").naturalWidth === 1440`)

	// What is clicked and typed in the picture reaches the program there.
	file := filepath.Join(t.TempDir(), "typed")
	s.post(t, "/v1/desktop/launch", fmt.Sprintf(`{"app":"xterm","args":["-geometry","+0+0","-e","cat > %s"],"wait":true}`, file)).want(t, 200)
	s.post(t, "/v1/desktop/launch", `{"app":"xterm","args":["-T","cover","-geometry","+600+400"],"wait":true}`).want(t, 200)
	holds(ctx, t, `document.querySelectorAll("#windows .name").length === 2`)
	evaluate[bool](ctx, t, "scrollTo(0, 0); true")
	box := evaluate[[]float64](ctx, t, `(() => { const b = document.querySelector("#screen").getBoundingClientRect(); return [b.left, b.top, b.width / 1440] })()`)
	do(ctx, t, chromedp.MouseClickXY(box[0]+100*box[2], box[1]+150*box[2]))
	do(ctx, t, chromedp.KeyEvent("into the Picture"), chromedp.KeyEvent("\r"))
	wrote := func(want string) func() bool {
		return func() bool { b, _ := os.ReadFile(file); return strings.HasSuffix(string(b), want) }
	}
	eventually(t, "text from the picture", wrote("into the Picture\n"))
	do(ctx, t, chromedp.SendKeys("#text", "from the box é"), chromedp.SendKeys("#text", "\r"), chromedp.Click(`[data-key="Return"]`))
	eventually(t, "text from the box", wrote("from the box é\n"))

	do(ctx, t, chromedp.Click(`#windows .close[aria-label="Close cover"]`))
	holds(ctx, t, `document.querySelectorAll("#windows .name").length === 1`)
	do(ctx, t, chromedp.SendKeys("#app", "no-such-program"), chromedp.Click("#launch button"))
	holds(ctx, t, `!document.querySelector("#problem").hidden && document.querySelector("#problem").textContent.includes("no-such-program")`)
	do(ctx, t, chromedp.Click("#problem-close"), chromedp.Click("#stop"))
	holds(ctx, t, fmt.Sprintf(stateIs, "inactive"))
	holds(ctx, t, `document.querySelector("#screen").hidden && !document.querySelector("#off-start").hidden`)
}

func TestPageAsksForTheToken(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	ctx := browse(t, s.url+"/ui/#token=wrong")
	holds(ctx, t, `!document.querySelector("#login").hidden && document.querySelector("main").hidden`)
	if at := evaluate[string](ctx, t, "location.href"); strings.Contains(at, "wrong") {
		t.Errorf("the page is at %s, want it without the token", at)
	}
	do(ctx, t, chromedp.SendKeys("#token", s.Token()), chromedp.Click("#login button"))
	holds(ctx, t, `document.querySelector("#login").hidden && !document.querySelector("main").hidden`)
	holds(ctx, t, fmt.Sprintf(stateIs, "inactive"))
}

// TestPageSavesPictures: a picture that did not change is not sent again.
func TestPageSavesPictures(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	ctx := browse(t, s.url+"/?token="+s.Token())
	holds(ctx, t, `!document.querySelector("#screen").hidden`)
	holds(ctx, t, `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/screenshot") && e.responseStatus === 304).length > 3`)
	if n := evaluate[int](ctx, t, `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/screenshot") && e.responseStatus === 200).length`); n > 2 {
		t.Errorf("%d pictures of a still screen were sent", n)
	}
}
