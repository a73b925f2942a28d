package x11_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// clipboardPage keeps the last picture that was pasted, and says when the text
// was.
const clipboardPage = `<!doctype html><title>clipboard</title><textarea id=t style="position:fixed;inset:0;width:100%;height:100%"></textarea><script>
let picture = "", pastes = 0
t.addEventListener("paste", async e => {
	const file = e.clipboardData.files[0]
	if (file) {
		const bytes = new Uint8Array(await file.arrayBuffer())
		let s = ""
		for (const b of bytes) s += String.fromCharCode(b)
		picture = btoa(s)
	}
	setTimeout(() => pastes++)
})
async function copyPicture(base64) {
	const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0))
	await navigator.clipboard.write([new ClipboardItem({"image/png": new Blob([bytes], {type: "image/png"})})])
}
</script>`

// startChromium opens the page in a window of its own.
func startChromium(tb testing.TB, w windowSystem) context.Context {
	tb.Helper()
	testx11.Require(tb, "chromium", "xdotool")
	path, _ := exec.LookPath("chromium")
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(clipboardPage))
	}))
	tb.Cleanup(site.Close)
	alloc, cancel := chromedp.NewExecAllocator(tb.Context(),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("password-store", "basic"), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.UserDataDir(tb.TempDir()),
		chromedp.Env("DISPLAY="+w.Display, "XAUTHORITY="+w.Authority, "HOME="+tb.TempDir()))
	tb.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	tb.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end
		cancel()
	})
	if err := chromedp.Do(ctx, chromedp.Navigate(site.URL)); err != nil {
		tb.Fatal(err)
	}
	if _, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "clipboard-write"}, Setting: browser.PermissionSettingGranted,
	}); err != nil {
		tb.Fatal(err)
	}
	info, err := w.WaitForWindow(soon(tb), func(i x11.WindowInfo) bool { return i.Class == "Chromium" && i.Active })
	if err != nil {
		tb.Fatal(err)
	}
	if info, err = w.Focus(soon(tb), info.ID); err != nil || !info.Active {
		tb.Fatal(info, err)
	}
	// The address bar has the keyboard at first.
	// Clicks are lost on a window that Chromium has not drawn yet.
	until(tb, "focus", func() bool {
		xdotool(tb, w.Server, "mousemove", fmt.Sprint(info.X+info.Width/2), fmt.Sprint(info.Y+info.Height/2), "click", "1")
		return evaluate[bool](ctx, tb, "document.hasFocus() && document.activeElement == t")
	})
	return ctx
}

// evaluate runs a script in the page with a user activation.
func evaluate[T any](ctx context.Context, tb testing.TB, script string) T {
	tb.Helper()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	result, err := chromedp.Run(limited, chromedp.Evaluate[T](script, func(p *runtime.EvaluateParams) {
		yes := true
		p.AwaitPromise, p.UserGesture = &yes, &yes
	}))
	if err != nil {
		tb.Fatalf("%.60s: %v", script, err)
	}
	return result
}

func xdotool(tb testing.TB, s *testx11.Server, args ...string) {
	tb.Helper()
	cmd := exec.CommandContext(soon(tb), "xdotool", args...)
	cmd.Env = s.Env()
	if err := cmd.Run(); err != nil {
		tb.Fatal(err)
	}
}

func TestSelectionChromium(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	cb := openClipboard(t, w.Server)
	changed := make(chan x11.SelectionName, 64)
	cb.OnChange(func(sel x11.SelectionName) {
		select {
		case changed <- sel:
		default:
		}
	})
	ctx := startChromium(t, w)
	pastes := 0
	paste := func() {
		t.Helper()
		evaluate[chromedp.Void](ctx, t, `t.value = ""; t.focus()`)
		xdotool(t, w.Server, "key", "ctrl+v")
		pastes++
		until(t, "paste", func() bool { return evaluate[int](ctx, t, "pastes") >= pastes })
	}
	copied := func(do func()) {
		t.Helper()
		for len(changed) > 0 {
			<-changed
		}
		do()
		for {
			select {
			case sel := <-changed:
				if sel == x11.SelectionClipboard {
					return
				}
			case <-soon(t).Done():
				t.Fatal("nothing was copied")
			}
		}
	}

	// A web page is slow with 10 MB, so that size is only for make soak.
	text := longText(1_000_000 * min(rounds(t), 10))
	if err := cb.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: text}); err != nil {
		t.Fatal(err)
	}
	paste()
	wantBytes(t, []byte(evaluate[string](ctx, t, "t.value")), text)

	evaluate[chromedp.Void](ctx, t, `t.value += "changed"; t.select()`)
	copied(func() { xdotool(t, w.Server, "key", "ctrl+c") })
	back, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, back, append(slices.Clone(text), "changed"...))

	ours := noisyPNG(t, 400, 380)
	if err := cb.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypePNG, Data: ours}); err != nil {
		t.Fatal(err)
	}
	paste()
	var got string
	until(t, "picture", func() bool { got = evaluate[string](ctx, t, "picture"); return got != "" })
	pasted, err := base64.StdEncoding.DecodeString(got)
	if err != nil {
		t.Fatal(err)
	}
	samePicture(t, pasted, ours)

	theirs := noisyPNG(t, 300, 200)
	copied(func() {
		evaluate[chromedp.Void](ctx, t, `copyPicture("`+base64.StdEncoding.EncodeToString(theirs)+`")`)
	})
	read, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypePNG, x11.MaxContent)
	if err != nil {
		t.Fatal(err)
	}
	samePicture(t, read, theirs)
}

// samePicture compares pixels, because browsers encode pictures again.
func samePicture(tb testing.TB, got, want []byte) {
	tb.Helper()
	a, err := png.Decode(bytes.NewReader(got))
	if err != nil {
		tb.Fatal(err)
	}
	b, err := png.Decode(bytes.NewReader(want))
	if err != nil {
		tb.Fatal(err)
	}
	if a.Bounds() != b.Bounds() {
		tb.Fatalf("picture is %v, want %v", a.Bounds(), b.Bounds())
	}
	for y := range b.Bounds().Dy() {
		for x := range b.Bounds().Dx() {
			if nrgba(a, x, y) != nrgba(b, x, y) {
				tb.Fatalf("pixel %d,%d is %v, want %v", x, y, nrgba(a, x, y), nrgba(b, x, y))
			}
		}
	}
}

func nrgba(i image.Image, x, y int) color.Color { return color.NRGBAModel.Convert(i.At(x, y)) }
