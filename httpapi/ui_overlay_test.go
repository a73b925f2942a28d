package httpapi

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageShowsActions: the page shows where an agent and other viewers act, and how.
func TestPageShowsActions(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken()+"&name=Ann")
	v.is("live")
	token := s.post(t, "/v1/tokens", `{"scope":"agent","name":"claude"}`).want(t, 200).json(t)["token"].(string)
	// Marks end after a moment: the page collects them.
	collect := func(v *viewer) {
		testbrowser.Evaluate[bool](v.ctx, t, `(() => {
			window.seen = [];
			for (const list of [document.querySelector("#actions"), document.querySelector("#chips")]) {
				new MutationObserver((all) => all.forEach(({ addedNodes }) => addedNodes.forEach((e) => window.seen.push({
					kind: e.dataset.kind, failed: "failed" in e.dataset, text: e.textContent, left: e.style?.left, top: e.style?.top,
					keys: [...e.querySelectorAll("kbd")].map((k) => k.textContent).join(" "),
					line: [...e.querySelectorAll("line")].map((l) => [...l.attributes].map((a) => a.value).join(" ")).join(),
				})))).observe(list, { childList: true });
			}
			return true;
		})()`)
	}
	saw := func(v *viewer, condition string) {
		t.Helper()
		v.holds(`window.seen.some((m) => %s)`, condition)
	}
	act := func(path, body string) {
		t.Helper()
		s.do(t, call{method: http.MethodPost, path: mainPath + path, body: body, header: map[string]string{"Authorization": "Bearer " + token}}).want(t, 200)
	}
	collect(v)
	v.holds(`document.querySelector('[name="actions"][value="agents"]').checked`)
	// The events begin when their stream is open, which the recordings show as well.
	eventually(t, "the page shows actions", func() bool {
		act("/mouse/click", `{"x":159,"y":119,"clickCount":2}`)
		return testbrowser.Evaluate[bool](v.ctx, t, `window.seen.length > 0`)
	})
	saw(v, `m.kind === "agent" && m.text === "claude: double-click" && m.left.startsWith("24.9") && m.top.startsWith("24.8")`)
	act("/mouse/click", `{"x":10,"y":10,"button":"right"}`)
	saw(v, `m.text === "claude: right click"`)
	act("/mouse/drag", `{"startX":10,"startY":20,"endX":300,"endY":400}`)
	saw(v, `m.line === "10 20 300 400"`)
	act("/mouse/scroll", `{"x":30,"y":30,"deltaY":3}`)
	saw(v, `m.text === "claude: scroll ↓ 3"`)
	act("/keyboard/type", `{"text":"<b>hello</b>"}`)
	saw(v, `m.text === "claude <b>hello</b>"`)
	act("/keyboard/type", `{"text":"hidden","secret":true}`)
	saw(v, `m.text === "claude typed 6 characters"`)
	act("/keyboard/press", `{"key":"ctrl+shift+a"}`)
	saw(v, `m.keys === "ctrl shift a"`)
	v.holds(`document.querySelectorAll(".mark, .chip").length === 0`) // they end

	// Of people only where they click, and only for those who want to see it.
	ann := v.another(s.withToken() + "&name=Bob")
	ann.is("live")
	collect(ann)
	ann.click(`[popovertarget="view-panel"]`)
	ann.click(`[name="actions"][value="all"]`)
	testbrowser.Do(ann.ctx, t, chromedp.KeyEvent("\x1b"))
	v.point(200, 100)
	v.types("secret of Ann")
	saw(ann, `m.kind === "viewer" && m.text.startsWith("Ann: ")`)
	v.holds(`!window.seen.some((m) => m.kind === "viewer")`) // its own
	ann.holds(`!window.seen.some((m) => m.text.includes("secret of"))`)

	// Off, and without motion.
	ann.click(`[popovertarget="view-panel"]`)
	ann.click(`[name="actions"][value="off"]`)
	ann.holds(`(window.seen = []).length === 0`)
	still := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}}
	if _, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, still); err != nil {
		t.Fatal(err)
	}
	testbrowser.Evaluate[bool](v.ctx, t, `(() => {
		new MutationObserver(() => { window.still = getComputedStyle(document.querySelector("#actions .mark i")).animationName; }).observe(document.querySelector("#actions"), { childList: true });
		return true;
	})()`)
	s.post(t, mainPath+"/control/take", `{"force":true}`).want(t, 200)
	s.post(t, mainPath+"/mouse/click", `{"x":50,"y":60}`).want(t, 200)
	saw(v, `m.kind === "api" && m.text.endsWith(": click")`)
	v.holds(`window.still === "none"`)
	ann.holds(`window.seen.length === 0`)
}
