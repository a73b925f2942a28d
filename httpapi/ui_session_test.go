package httpapi

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPageViewers has two viewers at one desktop, and one who only watches.
func TestPageViewers(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	file := s.rawTerminal(t, "")
	ann := s.view(t, s.withToken()+"&name=Ann")
	ann.is("live")
	ann.point(200, 200)
	ann.shows("#control", "You · in control")
	ann.types("a")
	got(t, file, "a")

	bob := ann.another(s.withToken() + "&name=Bob")
	bob.is("live")
	bob.holds(`document.querySelector("#people-count").textContent === "3"`) // with the API's caller
	// Bob sees Ann's pointer, and his keys and clicks go nowhere.
	bob.holds(`!document.querySelector("#pointer").hidden && document.querySelector("#pointer").naturalWidth > 0`)
	bob.point(300, 100)
	bob.shows("#prompt", "Ann is in control")
	bob.types("b")
	ann.types("A")
	got(t, file, "aA")
	// Ann was only granted it, so Bob may take it; what she holds comes up.
	ann.down(shift)
	bob.click("#prompt-take")
	bob.shows("#control", "You · in control")
	ann.shows("#control", "Bob · in control")
	ann.shows("#toast", "Bob is in control now")
	bob.holds(`document.querySelector("#main").classList.contains("captured")`)
	bob.types("c")
	got(t, file, "aAc")
	// API callers may act until Bob pauses them. Then only Bob may, by the page and by the API.
	s.post(t, mainPath+"/mouse/move", `{"x":3,"y":3}`).want(t, 200)
	bob.click("#control")
	bob.holds(`!document.querySelector("#control-alone").checked`)
	bob.click("#control-alone")
	ann.holds(locked)
	bob.holds(locked + ` && document.querySelector("#control-alone").checked`)
	testbrowser.Do(bob.ctx, t, chromedp.KeyEvent("\x1b"))
	s.post(t, mainPath+"/keyboard/press", `{"key":"x"}`).problem(t, 409, "control_held")
	bob.click(`[popovertarget="windows-panel"]`)
	bob.shows("#windows", "sh")
	bob.click(`#windows .name`)
	bob.holds(`document.querySelector("#windows .name").getAttribute("aria-current") === "true" && document.querySelector("#windows-problem").hidden`)
	testbrowser.Do(bob.ctx, t, chromedp.KeyEvent("\x1b"))
	// Ann asks, and Bob gives.
	ann.click("#control")
	ann.shows("#control-panel", "Bob has paused everyone else")
	ann.shows("#control-take", "Ask for control")
	ann.click("#control-take")
	ann.shows("#toast", "Bob is in control and was asked")
	bob.shows("#toast", "Ann asks for control")
	bob.click("#toast button")
	ann.shows("#control", "You · in control")
	ann.click("#control")
	ann.click("#control-release")
	ann.shows("#control", "Take control")

	eve := ann.another("?role=view&token=" + s.Token())
	eve.is("live")
	eve.shows("#control", "View only")
	eve.holds(`[...document.querySelectorAll("#tools button")].filter((b) => b.offsetParent && b.id !== "sound").length === 3`)
	eve.point(200, 200)
	eve.shows("#prompt", "You're watching")
	eve.types("e")
	bob.point(200, 200)
	bob.types("d")
	got(t, file, "aAcd")
	if c := s.get(t, mainPath+"/control").want(t, 200).json(t); c["taken"] != false || c["holder"].(map[string]any)["name"] != "Bob" {
		t.Errorf("control = %v", c)
	}
}

// TestPageRecovers: the picture comes back after a reload, a new size, the end
// of the X server and the end of the stream.
func TestPageRecovers(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.sees()
	s.post(t, mainPath+"/resize", `{"width":501,"height":403}`).want(t, 200)
	v.holds(`document.querySelector("video").videoWidth === 501 && document.querySelector("video").videoHeight === 403`)
	v.sees()

	for _, p := range s.get(t, mainPath+"/status").want(t, 200).json(t)["processes"].([]any) {
		if p := p.(map[string]any); p["name"] == "Xvfb" {
			if err := syscall.Kill(int(p["pid"].(float64)), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the desktop is back", func() bool {
		return s.post(t, mainPath+"/launch", `{"app":"xterm","wait":true}`).StatusCode == 200
	})
	v.is("live")
	v.sees()

	s.post(t, mainPath+"/stream/stop", "").want(t, 200)
	v.is("stopped")
	v.shows("#cover", "stopped it for everyone")
	v.click("#cover button")
	v.is("live")
	v.sees()
}

// TestPageMatches: the desktop takes the page's size when that is asked for.
func TestPageMatches(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.click(`[popovertarget="view-panel"]`)
	v.click(`[value="match"]`)
	v.shows("#control", "You · in control")
	same := `(() => {
		const { clientWidth: w, clientHeight: h } = document.querySelector("#stage");
		const video = document.querySelector("video");
		return video.videoWidth === w && video.videoHeight === h && w + document.querySelector("#rail").offsetWidth === %d;
	})()`
	width := testbrowser.Evaluate[int](v.ctx, t, "innerWidth")
	v.holds(same, width)
	resize(t, v, 800, 600)
	v.holds(same, 800)
	// The desktop gets its size back, and pixel by pixel a larger one can be scrolled.
	v.click(`[value="full"]`)
	v.holds(`document.querySelector("video").videoWidth === 640 && document.querySelector("video").videoHeight === 480`)
	s.post(t, mainPath+"/resize", `{"width":1300,"height":900}`).want(t, 200)
	v.holds(`document.querySelector("#stage").scrollWidth === 1300 && document.querySelector("#frame").offsetWidth === 1300`)
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector("[popover]:popover-open").hidePopover(); document.querySelector("#stage").scrollTo(400, 200); true`)
	v.point(700, 500)
	eventually(t, "the pointer is where the click was", func() bool {
		at := s.get(t, mainPath+"/mouse/position").want(t, 200).json(t)
		return at["x"] == 700.0 && at["y"] == 500.0
	})
}

func resize(t *testing.T, v *viewer, width, height int64) {
	t.Helper()
	p := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}
	if _, err := chromedp.Call(v.ctx, emulation.SetDeviceMetricsOverride, p); err != nil {
		t.Fatal(err)
	}
}

// TestPageFallsBack: without WebRTC the picture comes over a WebSocket, and
// without a decoder for that as screenshots. Input reaches the desktop by all.
func TestPageFallsBack(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	file := s.rawTerminal(t, `\033[?1000h\033[?1006h`)
	use := func(v *viewer, text string) {
		t.Helper()
		v.is("live")
		v.sees()
		v.point(100, 100)
		got(t, file, "m")
		v.shows("#control", "You · in control")
		v.mouse(chromedp.MouseWheel, 100, 100, func(p *mouseEvent) { p.DeltaX, p.DeltaY = 1e-9, 120 })
		eventually(t, "a step of the wheel", func() bool {
			b, _ := os.ReadFile(file)
			return strings.Contains(string(b[strings.LastIndexByte(string(b), 'm'):]), "\x1b[<65;")
		})
		v.types(text)
		got(t, file, text)
		v.sees()
	}
	const blind = "delete window.RTCPeerConnection;"
	v := s.view(t, s.withToken(), blind)
	use(v, "by socket")
	v.holds(`document.querySelector("#frame").dataset.surface === "canvas"`)
	s.post(t, mainPath+"/resize", `{"width":700,"height":501}`).want(t, 200)
	v.sees()
	v.holds(`!document.querySelector("#quality").hidden`)
	v.click("#quality")
	v.shows("#quality-panel", "WebSocket")
	v.shows("#quality-why", "Your browser blocks WebRTC; using WebSocket instead.")
	s.post(t, mainPath+"/stream/stop", "").want(t, 200)
	v.is("stopped")

	worse := &viewer{t, s, testbrowser.Window(v.ctx, t, s.url+"/ui/"+s.withToken(), blind+"delete window.VideoDecoder;")}
	worse.is("live")
	worse.shows("#state", "Screenshots")
	worse.shows("#warning", "Low frame rate: video is blocked on this network")
	use(worse, "by requests")
	worse.click("#control")
	worse.click("#control-alone")
	worse.holds(locked)
	testbrowser.Do(worse.ctx, t, chromedp.KeyEvent("\x1b"))
	s.post(t, mainPath+"/resize", `{"width":640,"height":480}`).want(t, 409)
	worse.click(`[popovertarget="windows-panel"]`)
	worse.click(`#windows .name`)
	worse.holds(`document.querySelector("#windows .name").getAttribute("aria-current") === "true" && document.querySelector("#windows-problem").hidden`)
	worse.click("#control")
	worse.click("#control-release")
	worse.shows("#control", "Take control")
	s.post(t, mainPath+"/resize", `{"width":640,"height":480}`).want(t, 200)
	worse.sees()
	s.post(t, mainPath+"/stop", "").want(t, 200)
	worse.is("off")
}

// TestPageIsNeverBlank: a connection without a picture counts for nothing.
func TestPageIsNeverBlank(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken(), `Object.defineProperty(HTMLVideoElement.prototype, "videoWidth", { get: () => 0 })`)
	v.is("connecting")
	v.shows("#cover", "Connecting")
	v.is("live")
	v.holds(`document.querySelector("#frame").dataset.surface === "canvas" && document.querySelector("#canvas").width === 640`)
	v.holds(`!document.querySelector("#quality").hidden`)
	v.click("#quality")
	v.shows("#quality-why", "No video received; using WebSocket instead.")
}

// TestPageClipboard: text goes both ways.
func TestPageClipboard(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xclip")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	file := s.rawTerminal(t, "")
	// The test's browser has no clipboard of its own that pages may use.
	v := s.view(t, s.withToken(), `
		window.here = [];
		Object.defineProperty(navigator, "clipboard", { value: {
			writeText: async (text) => { here.push(text); },
			readText: async () => "from here",
		} });`)
	v.is("live")
	v.point(200, 200)
	v.shows("#control", "You · in control")
	s.post(t, mainPath+"/clipboard", `{"text":"from there ✓"}`).want(t, 200)
	v.holds(`here.at(-1) === "from there ✓"`)

	// A paste brings the text, and then the keys. The event comes as a browser
	// sends it: right after the key.
	testbrowser.Evaluate[bool](v.ctx, t, `(() => {
		const box = document.querySelector("#keyboard");
		box.addEventListener("keydown", function paste(event) {
			if (event.key !== "v") return;
			box.removeEventListener("keydown", paste);
			const data = new DataTransfer();
			data.setData("text/plain", "pasted ☃");
			box.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, cancelable: true, bubbles: true }));
		});
		return true;
	})()`)
	v.down(control)
	v.press(key{name: "v", code: "KeyV", virtual: 86, modifiers: chromedp.ModifierCtrl})
	v.up(control)
	got(t, file, "\x16")
	if text := s.get(t, mainPath+"/clipboard").want(t, 200).json(t)["text"]; text != "pasted ☃" {
		t.Errorf("the desktop's clipboard holds %q", text)
	}
	// Without one the keys go alone.
	v.down(control)
	v.press(key{name: "v", code: "KeyV", virtual: 86, modifiers: chromedp.ModifierCtrl})
	v.up(control)
	got(t, file, "\x16\x16")
	v.types("v")
	got(t, file, "\x16\x16v")

	v.click(`[popovertarget="clipboard-panel"]`)
	v.holds(`document.querySelector("#clipboard-text").value === "pasted ☃"`)
	testbrowser.Do(v.ctx, t, chromedp.SetValue("#clipboard-text", "by the box"))
	v.click("#clipboard-send")
	eventually(t, "the box's text on the desktop", func() bool {
		return s.get(t, mainPath+"/clipboard").want(t, 200).json(t)["text"] == "by the box"
	})
	v.click(`[popovertarget="clipboard-panel"]`)
	v.click("#clipboard-sync")
	eventually(t, "this computer's text on the desktop", func() bool {
		return s.get(t, mainPath+"/clipboard").want(t, 200).json(t)["text"] == "from here"
	})

	// The desktop's text stays there if the viewer wants it.
	v.click("#clipboard-here")
	s.post(t, mainPath+"/clipboard", `{"text":"stays there"}`).want(t, 200)
	v.holds(`document.querySelector("#clipboard-text").value === "stays there" && here.at(-1) !== "stays there"`)
	v.click("#clipboard-here")
	v.holds(`here.at(-1) === "stays there"`)
}

// TestPageLayout: nothing is cut off, at any width, light or dark.
func TestPageLayout(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.holds(`!document.querySelector("#quality").hidden`)
	const fits = `(() => {
		const out = [...document.querySelectorAll("#bar *, #tools *, .panel:popover-open, .panel:popover-open *")].filter((e) => {
			const box = e.getBoundingClientRect();
			return box.width > 1 && (box.left < 0 || box.right > innerWidth || box.bottom > innerHeight) && !e.closest("pre, .list, select");
		});
		return JSON.stringify(out.map((e) => e.id || e.outerHTML.slice(0, 60)));
	})()`
	panels := []string{"windows", "keys", "clipboard", "view", "share", "more"}
	for _, width := range []int64{320, 390, 768, 1440} {
		resize(t, v, width, 700)
		for _, panel := range panels {
			v.click(fmt.Sprintf(`[popovertarget="%s-panel"]`, panel))
			v.shows("#"+panel+"-panel", "")
			if out := testbrowser.Evaluate[string](v.ctx, t, fits); out != "[]" {
				t.Errorf("%d pixels wide, with %s: %s lie outside", width, panel, out)
			}
			testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector("[popover]:popover-open").hidePopover(); true`)
		}
		if scroll := testbrowser.Evaluate[int64](v.ctx, t, `document.documentElement.scrollWidth`); scroll > width {
			t.Errorf("%d pixels wide: %d are needed", width, scroll)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, p); err != nil {
			t.Fatal(err)
		}
		testContrast(t, v, scheme)
	}
	// The system is in dark mode now. The user's choice counts more, and lasts.
	const ground = `getComputedStyle(document.body).backgroundColor === %q`
	v.click(`[popovertarget="view-panel"]`)
	v.click(`[name="theme"][value="light"]`)
	v.holds(ground, "rgb(247, 248, 250)")
	testContrast(t, v, "light by choice")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.holds(ground, "rgb(247, 248, 250)")
	v.click(`[popovertarget="view-panel"]`)
	v.click(`[name="theme"][value="system"]`)
	v.holds(ground, "rgb(14, 17, 22)")
	testForcedColors(t, v)
}

// testForcedColors looks at the page in the colors of the system, without its own backgrounds.
func testForcedColors(t *testing.T, v *viewer) {
	t.Helper()
	p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}}
	if _, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, p); err != nil {
		t.Fatal(err)
	}
	v.click("#control")
	v.shows("#control", "You · in control")
	v.click("#control-pause")
	v.holds(`document.querySelector("#control-pause").ariaChecked === "true"`)
	wrong := testbrowser.Evaluate[string](v.ctx, t, `(() => {
		const wrong = [];
		for (const e of document.querySelectorAll("button")) {
			if (!e.offsetParent) continue;
			const { borderTopWidth, borderTopColor, backgroundColor } = getComputedStyle(e);
			if (borderTopWidth === "0px" || borderTopColor === backgroundColor) wrong.push("no border: " + (e.id || e.outerHTML.slice(0, 60)));
		}
		if (getComputedStyle(document.querySelector("#control-pause")).outlineStyle !== "solid") wrong.push("the switch does not show that it is on");
		return JSON.stringify(wrong);
	})()`)
	if wrong != "[]" {
		t.Errorf("forced colors: %s", wrong)
	}
	v.saveScreenshot("forced-colors")
}

// testContrast computes the contrast of texts (WCAG 2.2, 1.4.3).
func testContrast(t *testing.T, v *viewer, scheme string) {
	t.Helper()
	low := testbrowser.Evaluate[string](v.ctx, t, `(() => {
		const probe = document.body.appendChild(document.createElement("i"));
		const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		const light = (name) => {
			probe.style.color = "var(" + name + ")";
			paint.fillStyle = getComputedStyle(probe).color;
			paint.fillRect(0, 0, 1, 1);
			const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const low = [];
		for (const ink of ["--text", "--dim", "--accent", "--ok", "--warn", "--err"]) for (const ground of ["--bg", "--s1", "--s2"]) {
			const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
			const ratio = (a + 0.05) / (b + 0.05);
			if (ratio < 4.5) low.push(ink + " on " + ground + ": " + ratio.toFixed(1));
		}
		probe.remove();
		return JSON.stringify(low);
	})()`)
	if low != "[]" {
		t.Errorf("%s: %s", scheme, low)
	}
}

// TestPageTables looks into the page's own tables.
func TestPageTables(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{})
	v := s.view(t, s.withToken())
	v.is("off")
	wrong := testbrowser.Await[string](v.ctx, t, `(async () => {
		const { Cause, explain, kinds } = await import("./errors.js");
		const { of, ofCharacter, ofName } = await import("./keysyms.js");
		const { Problem } = await import("./api.js");
		const wrong = [];
		const is = (what, got, want) => { if (got !== want) wrong.push(what + ": " + got + ", want " + want); };
		for (const kind of kinds) {
			const e = explain(new Cause(kind, { detail: "x", missing: ["Xvfb", "openbox"], command: "apt-get install xvfb", message: "no." }));
			for (const part of ["what", "why", "fix"]) if (!e[part]) wrong.push(kind + " has no " + part);
			if (/[.!]$/.test(e.what)) wrong.push(kind + " is a heading: " + e.what);
		}
		is("an unknown problem", explain(new Problem(418, { title: "Teapot", detail: "It is short." })).why, "It is short.");
		is("silence", explain(new Problem(0, {})).what, "Can't reach the server");
		is("origin", explain(new Problem(403, { title: "x", detail: 'requests from pages of "y"' })).command, "--cors-allow-origin " + location.origin);
		const key = (key, more = {}) => of({ key, code: "", location: 0, ...more });
		for (const [got, want] of [
			[key("a"), 0x61], [key("A"), 0x41], [key("é"), 0xe9], [key("€"), 0x010020ac], [key("😀"), 0x0101f600], [key("漢"), 0x01006f22],
			[key("Enter"), 0xff0d], [key("Enter", { location: 3 }), 0xff8d], [key("F1"), 0xffbe], [key("F12"), 0xffc9], [key("Delete"), 0xffff],
			[key("Shift", { location: 1 }), 0xffe1], [key("Shift", { location: 2 }), 0xffe2], [key("Meta", { location: 2 }), 0xffec],
			[key("с", { code: "KeyC", ctrlKey: true }), 0x63], [key("с", { code: "KeyC" }), 0x01000441], [key("Nonsense"), 0],
			[ofCharacter("\x7f"), 0], [ofName("Control"), 0xffe3], [ofName("v"), 0x76],
		]) is("keysym", got.toString(16), want.toString(16));
		return JSON.stringify(wrong);
	})()`)
	if wrong != "[]" {
		t.Error(wrong)
	}
}
