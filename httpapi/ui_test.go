package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

const stateIs = `document.querySelector("#state").dataset.state === %q`

func TestPage(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium", "Xvfb", "openbox", "dbus-daemon", "xterm")
	s := serve(t, Config{})
	ctx := testbrowser.Open(t, s.url+"/?token="+s.Token())
	testbrowser.Holds(ctx, t, fmt.Sprintf(stateIs, "inactive"))
	if at := testbrowser.Evaluate[string](ctx, t, "location.href"); at != s.url+"/ui/" {
		t.Errorf("the page is at %s, want it without the token", at)
	}
	testbrowser.Do(ctx, t, chromedp.Click("#off-start"))
	testbrowser.Holds(ctx, t, fmt.Sprintf(stateIs, "active"))
	testbrowser.Holds(ctx, t, `!document.querySelector("#screen").hidden && document.querySelector("#screen").naturalWidth === 1440`)

	// What is clicked and typed in the picture reaches the program there.
	file := filepath.Join(t.TempDir(), "typed")
	s.post(t, "/v1/desktop/launch", fmt.Sprintf(`{"app":"xterm","args":["-geometry","+0+0","-e","cat > %s"],"wait":true}`, file)).want(t, 200)
	s.post(t, "/v1/desktop/launch", `{"app":"xterm","args":["-T","cover","-geometry","+600+400"],"wait":true}`).want(t, 200)
	testbrowser.Holds(ctx, t, `document.querySelectorAll("#windows .name").length === 2`)
	testbrowser.Evaluate[bool](ctx, t, "scrollTo(0, 0); true")
	box := testbrowser.Evaluate[[]float64](ctx, t, `(() => { const b = document.querySelector("#screen").getBoundingClientRect(); return [b.left, b.top, b.width / 1440] })()`)
	testbrowser.Do(ctx, t, chromedp.MouseClickXY(box[0]+100*box[2], box[1]+150*box[2]))
	testbrowser.Do(ctx, t, chromedp.KeyEvent("into the Picture"), chromedp.KeyEvent("\r"))
	wrote := func(want string) func() bool {
		return func() bool { b, _ := os.ReadFile(file); return strings.HasSuffix(string(b), want) }
	}
	eventually(t, "text from the picture", wrote("into the Picture\n"))
	testbrowser.Do(ctx, t, chromedp.SendKeys("#text", "from the box é"), chromedp.SendKeys("#text", "\r"), chromedp.Click(`[data-key="Return"]`))
	eventually(t, "text from the box", wrote("from the box é\n"))

	testbrowser.Do(ctx, t, chromedp.Click(`#windows .close[aria-label="Close cover"]`))
	testbrowser.Holds(ctx, t, `document.querySelectorAll("#windows .name").length === 1`)
	testbrowser.Do(ctx, t, chromedp.SendKeys("#app", "no-such-program"), chromedp.Click("#launch button"))
	testbrowser.Holds(ctx, t, `!document.querySelector("#problem").hidden && document.querySelector("#problem").textContent.includes("no-such-program")`)
	testbrowser.Do(ctx, t, chromedp.Click("#problem-close"), chromedp.Click("#stop"))
	testbrowser.Holds(ctx, t, fmt.Sprintf(stateIs, "inactive"))
	testbrowser.Holds(ctx, t, `document.querySelector("#screen").hidden && !document.querySelector("#off-start").hidden`)
}

func TestPageAsksForTheToken(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{})
	ctx := testbrowser.Open(t, s.url+"/ui/#token=wrong")
	testbrowser.Holds(ctx, t, `!document.querySelector("#login").hidden && document.querySelector("main").hidden`)
	if at := testbrowser.Evaluate[string](ctx, t, "location.href"); strings.Contains(at, "wrong") {
		t.Errorf("the page is at %s, want it without the token", at)
	}
	testbrowser.Do(ctx, t, chromedp.SendKeys("#token", s.Token()), chromedp.Click("#login button"))
	testbrowser.Holds(ctx, t, `document.querySelector("#login").hidden && !document.querySelector("main").hidden`)
	testbrowser.Holds(ctx, t, fmt.Sprintf(stateIs, "inactive"))
}

// TestPageSavesPictures: a picture that did not change is not sent again.
func TestPageSavesPictures(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	ctx := testbrowser.Open(t, s.url+"/?token="+s.Token())
	testbrowser.Holds(ctx, t, `!document.querySelector("#screen").hidden`)
	testbrowser.Holds(ctx, t, `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/screenshot") && e.responseStatus === 304).length > 3`)
	if n := testbrowser.Evaluate[int](ctx, t, `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/screenshot") && e.responseStatus === 200).length`); n > 2 {
		t.Errorf("%d pictures of a still screen were sent", n)
	}
}
