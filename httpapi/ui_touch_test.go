package httpapi

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdpinput "github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// fingers sends one event of fingers at points of the desktop.
func (v *viewer) fingers(kind cdpinput.DispatchTouchEventType, points ...[2]int) {
	v.t.Helper()
	at := make([][2]float64, len(points))
	for i, p := range points {
		at[i][0], at[i][1] = v.at(p[0], p[1])
	}
	v.fingersAt(kind, at...)
}

// page returns points of the page for points of the desktop, in pairs of two fingers.
func (v *viewer) page(points ...[2]int) (pairs [][2][2]float64) {
	v.t.Helper()
	for i := 0; i < len(points); i += 2 {
		var pair [2][2]float64
		for n := range pair {
			pair[n][0], pair[n][1] = v.at(points[i+n][0], points[i+n][1])
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

// fingersAt sends one event of fingers at points of the page.
func (v *viewer) fingersAt(kind cdpinput.DispatchTouchEventType, points ...[2]float64) {
	v.t.Helper()
	p := cdpinput.DispatchTouchEventParams{Type: kind, TouchPoints: []*cdpinput.TouchPoint{}}
	for i, at := range points {
		id := float64(i)
		p.TouchPoints = append(p.TouchPoints, &cdpinput.TouchPoint{X: at[0], Y: at[1], ID: &id})
	}
	if _, err := chromedp.Call(v.ctx, cdpinput.DispatchTouchEvent, p); err != nil {
		v.t.Fatal(err)
	}
}

// TestPageTouch acts on a desktop with fingers and the keyboard of a phone.
func TestPageTouch(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	file := s.rawTerminal(t, `\033[?1002h\033[?1006h`)
	// The height of the title bar differs between machines. Here, 100, 150 is in column 17, row 10.
	id := s.get(t, mainPath+"/windows/focused").want(t, 200).json(t)["id"]
	s.post(t, fmt.Sprintf("%s/windows/%v/move", mainPath, id), `{"x":1,"y":25}`).want(t, 200)
	v := s.view(t, s.withToken())
	touches := emulation.SetTouchEmulationEnabledParams{Enabled: true}
	if _, err := chromedp.Call(v.ctx, emulation.SetTouchEmulationEnabled, touches); err != nil {
		t.Fatal(err)
	}
	phone := emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1, Mobile: true}
	if _, err := chromedp.Call(v.ctx, emulation.SetDeviceMetricsOverride, phone); err != nil {
		t.Fatal(err)
	}
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	const (
		start = cdpinput.DispatchTouchEventTypeTouchStart
		move  = cdpinput.DispatchTouchEventTypeTouchMove
		end   = cdpinput.DispatchTouchEventTypeTouchEnd
	)
	reports := func(what, want string) {
		t.Helper()
		var b []byte
		defer func() {
			if t.Failed() {
				t.Logf("the terminal got %q", b)
			}
		}()
		eventually(t, what, func() bool {
			b, _ = os.ReadFile(file)
			return strings.Contains(string(b), want)
		})
		if err := os.Truncate(file, 0); err != nil {
			t.Fatal(err)
		}
	}
	v.fingers(start, [2]int{100, 150})
	v.fingers(end)
	reports("a tap is a click", "\x1b[<0;17;10m")
	v.shows("#control", "You · in control")

	v.fingers(start, [2]int{100, 150})
	reports("a finger that rests clicks with the right button", "\x1b[<2;17;10m")
	v.fingers(end)

	v.fingers(start, [2]int{50, 150})
	v.fingers(move, [2]int{150, 150})
	v.fingers(move, [2]int{206, 150})
	v.fingers(end)
	reports("a finger that moves drags", "\x1b[<0;34;10m")

	v.fingers(start, [2]int{100, 200})
	v.fingers(start, [2]int{100, 200}, [2]int{150, 200})
	for y := 200; y >= 60; y -= 20 {
		v.fingers(move, [2]int{100, y}, [2]int{150, y})
	}
	v.fingers(end)
	reports("two fingers scroll", "\x1b[<65;")

	v.holds(`document.querySelector("#keyrow").hidden`)
	v.click("#keys-tool")
	v.holds(`!document.querySelector("#keyrow").hidden && document.activeElement.id === "keyboard"`)
	insert := func(text string) {
		t.Helper()
		if _, err := chromedp.Call(v.ctx, cdpinput.InsertText, cdpinput.InsertTextParams{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	insert("ls")
	got(t, file, "ls")
	v.click(`[data-stick="Control"]`)
	v.holds(`document.querySelector('[data-stick="Control"]').getAttribute("aria-pressed") === "true"`)
	insert("c")
	got(t, file, "ls\x03")
	v.holds(`document.querySelector('[data-stick="Control"]').getAttribute("aria-pressed") === "false"`)
	insert("d")
	v.click(`[data-key="Escape"]`)
	got(t, file, "ls\x03d\x1b")

	// Two fingers that part zoom the picture around them, and then move it.
	width := func() float64 {
		return testbrowser.Evaluate[float64](v.ctx, t, `document.querySelector("#frame").offsetWidth`)
	}
	before := width()
	v.fingers(start, [2]int{200, 200})
	v.fingers(start, [2]int{200, 200}, [2]int{260, 200})
	// The places are of the picture before it grows.
	for _, at := range v.page([2]int{190, 200}, [2]int{270, 200}, [2]int{140, 200}, [2]int{320, 200}) {
		v.fingersAt(move, at[:]...)
	}
	v.fingers(end)
	if now := width(); now < 1.5*before {
		t.Errorf("the picture is %v wide after a pinch, %v before", now, before)
	}
	v.holds(`document.querySelector("#stage").scrollWidth > document.querySelector("#stage").clientWidth`)
	v.click(`[popovertarget="view-panel"]`)
	v.click(`[value="trackpad"]`)
	v.click(`[value="full"]`)
	v.click(`[value="fit"]`)
	v.holds(`document.querySelector("#frame").offsetWidth === %v`, before)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))

	// On the trackpad, fingers move the pointer from where it is.
	position := func() (x, y int) {
		at := s.get(t, mainPath+"/mouse/position").want(t, 200).json(t)
		return int(at["x"].(float64)), int(at["y"].(float64))
	}
	x0, y0 := position()
	v.fingers(start, [2]int{300, 300})
	for d := 10; d <= 60; d += 10 {
		v.fingers(move, [2]int{300 + d, 300 - d})
	}
	v.fingers(end)
	eventually(t, "the pointer moves as far as the finger", func() bool {
		x, y := position()
		return abs(x-x0-60) <= 3 && abs(y0-y-60) <= 3
	})
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	v.fingers(start, [2]int{400, 400})
	v.fingers(start, [2]int{400, 400}, [2]int{440, 400})
	v.fingers(end)
	reports("a tap with two fingers clicks with the right button", "\x1b[<2;")
	v.fingers(start, [2]int{400, 400})
	v.fingers(end)
	reports("a tap clicks where the pointer is", "\x1b[<0;")
}

func abs(n int) int { return max(n, -n) }
