package httpapi

import (
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
	p := cdpinput.DispatchTouchEventParams{Type: kind, TouchPoints: []*cdpinput.TouchPoint{}}
	for i, at := range points {
		x, y := v.at(at[0], at[1])
		id := float64(i)
		p.TouchPoints = append(p.TouchPoints, &cdpinput.TouchPoint{X: x, Y: y, ID: &id})
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
}
