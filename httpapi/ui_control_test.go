package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// as calls the API under a name.
func (s *testServer) as(t *testing.T, name, path, body string) answer {
	t.Helper()
	return s.do(t, call{method: http.MethodPost, path: mainPath + path, body: body, header: map[string]string{"Deskhand-Actor": name}})
}

// isFree waits until no actor has control, for less than an idle holder would keep it.
func (s *testServer) isFree(t *testing.T) {
	t.Helper()
	begun := time.Now()
	eventually(t, "control is free", func() bool { return s.get(t, mainPath+"/control").want(t, 200).json(t)["holder"] == nil })
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("control was free after %v only", took)
	}
}

// locked is whether the page shows that others are paused.
const locked = `!document.querySelector("#control-lock").hidden`

// TestPageTakesOver takes control from an API client and from an agent, which
// every viewer sees in the bar and in the people panel.
func TestPageTakesOver(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.post(t, "/v1/sessions/helper", fmt.Sprintf(`{"agent":"mock","directory":%q,"desktop":"main"}`, t.TempDir())).want(t, 200)
	s.as(t, "ci", "/control/take", "").want(t, 200)
	eve := s.view(t, "?role=view&name=Eve&token="+s.Token())
	ann := eve.another(s.withToken() + "&name=Ann")
	for _, v := range []*viewer{ann, eve} {
		v.is("live")
		v.shows("#control", "ci · in control")
		v.holds(locked)
		v.click("#people")
		v.shows("#people-list", "ci\nAPI client · in control, others are paused")
		v.shows("#people-list", "mock\nagent")
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
	}
	// One question, in the picture or in the panel.
	ann.point(100, 100)
	ann.shows("#prompt", "API client ci is in control.")
	ann.shows("#prompt-take", "Take control anyway")
	ann.click("#control")
	ann.shows("#control-panel", "API client ci is paused while you're in control")
	testbrowser.Do(ann.ctx, t, chromedp.KeyEvent("\x1b"))
	ann.click("#prompt-take")
	ann.shows("#control", "You · in control")
	eve.shows("#control", "Ann · in control")
	eve.holds(locked)
	s.as(t, "ci", "/mouse/move", `{"x":1,"y":1}`).problem(t, 409, "control_held")
	// Whether others are paused is the viewer's choice.
	ann.click("#control")
	ann.shows("#control-panel", "You're in control")
	ann.holds(`document.querySelector("#control-alone").checked`)
	ann.click("#control-alone")
	eve.holds("!(" + locked + ")")
	s.as(t, "ci", "/mouse/move", `{"x":1,"y":1}`).want(t, 200)
	testbrowser.Do(ann.ctx, t, chromedp.KeyEvent("\x1b"))
	ann.click(`#control-pause[aria-checked="false"]`)
	ann.holds(`document.querySelector("#control-pause").ariaChecked === "true"`)
	eve.holds(locked)
	eve.holds(`document.querySelector("#control-pause").hidden`)
	s.as(t, "ci", "/mouse/move", `{"x":1,"y":1}`).problem(t, 409, "control_held")
	ann.click("#control-pause")
	eve.holds("!(" + locked + ")")
	ann.click("#control")
	ann.click("#control-release")
	ann.shows("#control", "Take control")

	token := s.post(t, "/v1/tokens", `{"scope":"agent","name":"claude"}`).want(t, 200).json(t)["token"].(string)
	robot := map[string]string{"Authorization": "Bearer " + token}
	s.do(t, call{method: http.MethodPost, path: mainPath + "/control/take", header: robot}).want(t, 200)
	ann.shows("#control", "claude · in control")
	ann.click("#control")
	ann.shows("#control-panel", "Agent claude is in control")
	ann.click("#control-take")
	ann.shows("#control", "You · in control")
	ann.holds(locked)
	// An API client may take it back by force; its viewer sees that.
	s.as(t, "ci", "/control/take", `{"force":true}`).want(t, 200)
	ann.shows("#toast", "API client ci is in control now")
	// One click takes control from a program.
	ann.click("#control-over")
	ann.shows("#control", "You · in control, agents paused")
	ann.holds(locked + ` && document.querySelector("#control-over").hidden`)
	eve.shows("#control", "Ann · in control")
	// A person is asked for it, and loses it only to an answer in the panel.
	bob := eve.another(s.withToken() + "&name=Bob")
	bob.is("live")
	bob.click("#control-over")
	bob.shows("#control-panel", "Ann has paused everyone else")
	bob.click("#control-take")
	ann.shows("#toast", "Bob asks for control")
	bob.shows("#control", "Ann · in control")
	bob.click("#control-over")
	bob.click("#control-force")
	bob.shows("#control", "You · in control")
	ann.shows("#toast", "Bob is in control now")
	ann.click("#control-over")
	ann.click("#control-take")
	ann.shows("#control", "You · in control")
	if err := chromedp.Cancel(ann.ctx); err != nil {
		t.Fatal(err)
	}
	s.isFree(t)
	eve.shows("#control", "View only")
}

// TestPageScreenshotsControl: control ends with a page that shows screenshots,
// too, when it has no time to say so.
func TestPageScreenshotsControl(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	eve := s.view(t, "?role=view&token="+s.Token())
	eve.is("live")
	ann := &viewer{t, s, testbrowser.Window(eve.ctx, t, s.url+"/ui/"+s.withToken()+"&name=Ann", `
		delete window.RTCPeerConnection;
		delete window.VideoDecoder;
		const real = window.fetch;
		window.fetch = (url, init) => (init?.keepalive ? Promise.reject(new TypeError("gone")) : real(url, init));`)}
	ann.is("live")
	ann.shows("#state", "Screenshots")
	ann.click("#control")
	ann.shows("#control", "You · in control")
	eve.shows("#control", "Ann")
	eve.holds("!(" + locked + ")")
	ann.click("#control")
	ann.click("#control-alone")
	ann.holds(locked)
	eve.holds(locked)
	testbrowser.Do(ann.ctx, t, chromedp.KeyEvent("\x1b"))
	ann.click("#people")
	ann.shows("#people-list", "You\nin control, others are paused")
	if err := chromedp.Cancel(ann.ctx); err != nil {
		t.Fatal(err)
	}
	s.isFree(t)
}

// TestPageBarFits: nothing in the bar covers anything else, however narrow the
// page is and whichever actor is in control.
func TestPageBarFits(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.as(t, "a caller with quite a long name", "/control/take", "").want(t, 200)
	s.post(t, mainPath+"/recordings", "").want(t, 201)
	v := s.view(t, s.withToken())
	v.is("live")
	v.shows("#control", "in control")
	v.shows("#record", ":") // the time
	v.holds(`!document.querySelector("#quality").hidden && !document.querySelector("#people").hidden`)
	v.point(300, 300)
	v.shows("#prompt", "is in control")
	for _, width := range []int64{320, 390, 640, 700, 820, 1280} {
		resize(t, v, width, 700)
		v.holds("innerWidth === %d", width)
		if bad := testbrowser.Evaluate[string](v.ctx, t, `(() => {
			const bad = [];
			for (const parent of ["bar", "prompt"]) {
				let right = 0;
				for (const e of [...document.getElementById(parent).children].filter((e) => e.checkVisibility() && e.offsetWidth)) {
					const box = e.getBoundingClientRect();
					if (box.right > (parent === "bar" ? e.parentElement.getBoundingClientRect().right : innerWidth) || (parent === "bar" && box.left < right - 0.5)) bad.push(parent + ": " + (e.id || e.tagName) + " lies over another");
					if (e.scrollWidth > e.clientWidth + 1) bad.push(parent + ": " + (e.id || e.tagName) + " is cut off");
					right = box.right;
				}
			}
			const who = document.querySelector("#control-who");
			if (who.clientWidth < 24) bad.push("no room for the name: " + who.clientWidth);
			return bad.join(", ");
		})()`); bad != "" {
			t.Errorf("%d pixels wide: %s", width, bad)
		}
	}
}

// TestPagePointerAfterControl: after the end of control the page shows the pointer where the
// viewer has moved it.
func TestPagePointerAfterControl(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	s.post(t, mainPath+"/mouse/move", `{"x":600,"y":440}`).want(t, 200)
	v.point(200, 200)
	v.shows("#control", "You · in control")
	v.click("#control")
	v.click("#control-release")
	v.shows("#control", "Take control")
	at := s.get(t, mainPath+"/mouse/position").want(t, 200).json(t)
	v.holds(`(() => {
		const frame = document.querySelector("#frame").getBoundingClientRect(), image = document.querySelector("#pointer");
		const { left, top, width, height } = image.getBoundingClientRect(), scale = frame.width / 640;
		const near = (a, b, size) => Math.abs(a - b * scale) <= size;
		return !image.hidden && near(left - frame.left, %v, width) && near(top - frame.top, %v, height);
	})()`, at["x"], at["y"])
}
