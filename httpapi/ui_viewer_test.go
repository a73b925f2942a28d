package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdpinput "github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// viewer is the page, in a browser.
type viewer struct {
	t   *testing.T
	s   *testServer
	ctx context.Context //nolint:containedctx // of its tab, as chromedp has it
}

// view opens the page in a browser of its own. Scripts run before the page's.
func (s *testServer) view(t *testing.T, query string, scripts ...string) *viewer {
	t.Helper()
	testx11.Require(t, "chromium")
	return &viewer{t, s, testbrowser.OpenStrict(t, s.url+"/ui/"+query, scripts...)}
}

// another opens the page in another window of the same browser.
func (v *viewer) another(query string) *viewer {
	v.t.Helper()
	return &viewer{v.t, v.s, testbrowser.Window(v.ctx, v.t, v.s.url+"/ui/"+query)}
}

// withToken is a query with the server's token.
func (s *testServer) withToken() string { return "?token=" + s.Token() }

// holds waits until a script's value is true.
func (v *viewer) holds(format string, a ...any) {
	v.t.Helper()
	testbrowser.Holds(v.ctx, v.t, fmt.Sprintf(format, a...))
}

// is waits for a state of the page.
func (v *viewer) is(state string) {
	v.t.Helper()
	v.holds("document.body.dataset.state === %q", state)
}

// shows waits until an element can be seen and has a text.
func (v *viewer) shows(selector, text string) {
	v.t.Helper()
	v.holds(`(() => { const e = document.querySelector(%q); return Boolean(e?.offsetParent ?? e?.matches(":popover-open")) && e.innerText.includes(%q) })()`, selector, text)
}

// click clicks an element, when it has come to rest and nothing covers it: a
// panel is put into its place after it was opened. It clicks again if the
// element moved away before the click reached it.
func (v *viewer) click(selector string) {
	v.t.Helper()
	deadline := time.Now().Add(time.Minute)
	last := ""
	for t := time.NewTicker(25 * time.Millisecond); time.Now().Before(deadline); <-t.C {
		found := testbrowser.Evaluate[clickable](v.ctx, v.t, fmt.Sprintf(clickableScript, selector))
		if last = found.Problem; last != "" {
			continue
		}
		testbrowser.Do(v.ctx, v.t, chromedp.MouseClickXY(found.X, found.Y))
		if testbrowser.Evaluate[bool](v.ctx, v.t, `window.awaitsClick?.() !== true`) {
			return
		}
		last = "the click reached another element"
	}
	v.saveScreenshot("not-clicked")
	v.t.Fatalf("%s was not clicked within a minute: %s", selector, last)
}

// clickable is where an element can be clicked, or why it cannot be.
type clickable struct {
	X       float64 `json:"x"`
	Y       float64 `json:"y"`
	Problem string  `json:"problem"`
}

// clickableScript makes a clickable. Afterwards window.awaitsClick tells whether the
// element has got no click. A list of choices gets none, but opens.
const clickableScript = `((selector) => {
	const e = document.querySelector(selector);
	if (!e) return { problem: "there is no such element" };
	e.scrollIntoView({ block: "nearest" });
	const box = e.getBoundingClientRect();
	const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
	const place = selector + JSON.stringify(box);
	const before = window.placeBefore;
	window.placeBefore = place;
	const hit = document.elementFromPoint(x, y);
	if (!hit || !(e.contains(hit) || hit.contains(e) && !hit.contains(document.body))) return { problem: "at " + place + " there is " + (hit?.outerHTML.slice(0, 300) ?? "nothing") };
	if (e.matches("button") && getComputedStyle(e).pointerEvents === "none") return { problem: "it takes no clicks" };
	if (before !== place) return { problem: "it moves: " + before + ", then " + place };
	let awaited = true;
	hit.addEventListener(hit.matches("select") ? "pointerdown" : "click", () => { awaited = false; }, { capture: true, once: true });
	window.awaitsClick = () => awaited && hit.isConnected;
	return { x, y };
})(%q)`

// at is where a point of the desktop is on the page.
func (v *viewer) at(x, y int) (float64, float64) {
	v.t.Helper()
	at := testbrowser.Evaluate[[]float64](v.ctx, v.t, fmt.Sprintf(`(() => {
		const box = document.querySelector("#frame").getBoundingClientRect();
		const shown = document.querySelector(document.querySelector("#frame").dataset.surface === "video" ? "video" : "canvas");
		const scale = box.width / (shown.videoWidth ?? shown.width);
		return [box.left + (%d + 0.5) * scale, box.top + (%d + 0.5) * scale];
	})()`, x, y))
	return at[0], at[1]
}

type mouseEvent = cdpinput.DispatchMouseEventParams

// mouse sends one event of the mouse, at a point of the desktop.
func (v *viewer) mouse(kind cdpinput.DispatchMouseEventType, x, y int, more func(*mouseEvent)) {
	v.t.Helper()
	p := mouseEvent{Type: kind}
	p.X, p.Y = v.at(x, y)
	if more != nil {
		more(&p)
	}
	if _, err := chromedp.Call(v.ctx, cdpinput.DispatchMouseEvent, p); err != nil {
		v.t.Fatal(err)
	}
}

func left(p *mouseEvent) {
	p.Button, p.ClickCount = cdpinput.MouseButtonLeft, 1
	if p.Type != chromedp.MouseReleased {
		p.Buttons = 1
	}
}

// point clicks a point of the desktop.
func (v *viewer) point(x, y int) {
	v.t.Helper()
	v.mouse(chromedp.MouseMoved, x, y, nil)
	v.mouse(chromedp.MousePressed, x, y, left)
	v.mouse(chromedp.MouseReleased, x, y, left)
}

// key is an event of a keyboard. Text is what a key types when it goes down.
type key struct {
	name, code, text string
	virtual          int64 // what Windows calls the key
	modifiers        chromedp.Modifier
}

var (
	enter   = key{name: "Enter", code: "Enter", text: "\r", virtual: 13}
	shift   = key{name: "Shift", code: "ShiftLeft", virtual: 16, modifiers: chromedp.ModifierShift}
	control = key{name: "Control", code: "ControlLeft", virtual: 17, modifiers: chromedp.ModifierCtrl}
	alt     = key{name: "Alt", code: "AltLeft", virtual: 18, modifiers: chromedp.ModifierAlt}
)

func (v *viewer) down(k key) { v.t.Helper(); v.key(cdpinput.DispatchKeyEventTypeKeyDown, k) }
func (v *viewer) up(k key)   { v.t.Helper(); v.key(cdpinput.DispatchKeyEventTypeKeyUp, k) }

func (v *viewer) key(kind cdpinput.DispatchKeyEventType, k key) {
	v.t.Helper()
	p := cdpinput.DispatchKeyEventParams{Type: kind, Key: k.name, Code: k.code, WindowsVirtualKeyCode: k.virtual, Modifiers: int64(k.modifiers)}
	if kind == cdpinput.DispatchKeyEventTypeKeyDown {
		p.Text = k.text
	}
	if _, err := chromedp.Call(v.ctx, cdpinput.DispatchKeyEvent, p); err != nil {
		v.t.Fatal(err)
	}
}

func (v *viewer) press(keys ...key) {
	v.t.Helper()
	for _, k := range keys {
		v.down(k)
		v.up(k)
	}
}

// types presses a key for each character.
func (v *viewer) types(text string) {
	v.t.Helper()
	for _, r := range text {
		v.press(key{name: string(r), text: string(r)})
	}
}

// picture is what the page shows of the desktop.
func (v *viewer) picture() image.Image {
	v.t.Helper()
	text := testbrowser.Evaluate[string](v.ctx, v.t, `(() => {
		const shown = document.querySelector(document.querySelector("#frame").dataset.surface === "video" ? "video" : "canvas");
		const copy = document.createElement("canvas");
		copy.width = shown.videoWidth ?? shown.width;
		copy.height = shown.videoHeight ?? shown.height;
		copy.getContext("2d").drawImage(shown, 0, 0);
		return copy.toDataURL("image/png").split(",")[1];
	})()`)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		v.t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		v.t.Fatal(err)
	}
	return img
}

// sees waits until the page shows what a screenshot does.
func (v *viewer) sees() {
	v.t.Helper()
	var diff float64
	defer func() {
		if v.t.Failed() {
			v.t.Logf("the picture is %.1f levels off the screenshot", diff)
		}
	}()
	eventually(v.t, "the picture is that of the desktop", func() bool {
		want, _ := v.s.get(v.t, mainPath+"/screenshot").picture(v.t)
		got := v.picture()
		if got.Bounds() != want.Bounds() {
			diff = 255
			return false
		}
		diff = meanDifference(got, want)
		return diff < 12
	})
}

// meanDifference is how far two pictures of one size differ, on average of all
// pixels and colours.
func meanDifference(a, b image.Image) float64 {
	x, y := image.NewRGBA(a.Bounds()), image.NewRGBA(a.Bounds())
	draw.Draw(x, x.Rect, a, a.Bounds().Min, draw.Src)
	draw.Draw(y, y.Rect, b, b.Bounds().Min, draw.Src)
	total := 0
	for i, v := range x.Pix {
		total += max(int(v)-int(y.Pix[i]), int(y.Pix[i])-int(v))
	}
	return float64(total) / float64(len(x.Pix)/4*3)
}

// rawTerminal opens an xterm at the top left that writes every byte that it gets
// to the file that it returns. setup is printed first, as escape sequences.
func (s *testServer) rawTerminal(t *testing.T, setup string) (file string) {
	t.Helper()
	testx11.Require(t, "xterm")
	file = filepath.Join(t.TempDir(), "typed")
	const script = `printf "$1"; stty raw -echo; : >"$0"; exec cat >>"$0"`
	args, err := json.Marshal([]string{"-u8", "-geometry", "60x20+0+0", "-e", "sh", "-c", script, file, setup})
	if err != nil {
		t.Fatal(err)
	}
	out := s.post(t, mainPath+"/launch", `{"app":"xterm","wait":true,"args":`+string(args)+`}`).want(t, 200).json(t)
	s.post(t, fmt.Sprintf("%s/windows/%v/focus", mainPath, out["windowId"]), "").want(t, 200)
	eventually(t, "shell in the terminal", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	return file
}

// got waits until a file ends with a text.
func got(t *testing.T, file, want string) {
	t.Helper()
	var text []byte
	defer func() {
		if t.Failed() {
			t.Logf("%s holds %q, want it to end with %q", file, text, want)
		}
	}()
	eventually(t, "what was typed in the terminal", func() bool {
		text, _ = os.ReadFile(file)
		return strings.HasSuffix(string(text), want)
	})
}
