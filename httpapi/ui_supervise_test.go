package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPageSupervises is what a person does who sees the page for the first time: starts an
// agent, allows its click, watches it, takes over, gives back, replays the click, and opens
// a terminal.
func TestPageSupervises(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	cfg := withMock(t)
	folder := t.TempDir()
	cfg.Roots = []filesystem.Root{{Path: folder}}
	s := startReal(t, cfg, `{"width":640,"height":480}`)
	s.rawTerminal(t, "")
	v := s.view(t, s.withToken()+"&name=Ann")
	v.is("live")
	v.click("#record")
	v.shows("#record", "0:0")

	// Start an agent.
	v.click(`#rail [aria-label="Sessions"]`)
	v.click(".chat .empty button")
	v.click(`.chat .agents [value="mock"]`)
	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#new-text", "desktop 160 120"), chromedp.SendKeys("#new-folder", folder))
	v.holds(`document.querySelector("#new-desktop").checked`)
	v.click("#new-text")
	v.press(enter)

	// Allow its click, and see it.
	v.shows(".permission", "Click at 160, 120")
	v.holds(`document.title.startsWith("● Permission")`)
	v.holds(`document.querySelector(".chat .thumbnail img")?.naturalWidth === 640`)
	testbrowser.Evaluate[bool](v.ctx, t, `(() => {
		window.seen = [];
		new MutationObserver((all) => all.forEach(({ addedNodes }) => addedNodes.forEach((e) => window.seen.push(e.textContent + " by " + e.dataset.kind))))
			.observe(document.querySelector("#actions"), { childList: true });
		return true;
	})()`)
	v.holds(`[...document.querySelectorAll(".permission button")].some((b) => b.textContent.includes("Allow") && (b.click(), true))`)
	v.holds(`window.seen.includes("mock: click by agent")`)
	v.shows(".chat .conversation", "click completed")
	v.holds(`!document.querySelector(".permission") && !document.title.includes("Permission")`)
	if at := s.get(t, mainPath+"/mouse/position").want(t, 200).json(t); at["x"] != 160.0 || at["y"] != 120.0 {
		t.Errorf("the pointer is at %v", at)
	}
	v.saveScreenshot("session")
	// The row of the click leads to the moment of the click.
	v.holds(`(() => { const all = document.querySelectorAll(".chat .call .seek"); all[all.length - 1]?.click(); return all.length > 0; })()`)
	v.shows(".strip .moment-card", "mock: Click at 160, 120")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))

	// Take over in the middle of a turn, and give back.
	s.as(t, "ci", "/control/take", "").want(t, 200)
	v.shows("#control", "ci · in control")
	v.click("#control-over")
	v.shows("#control", "You · in control, agents paused")
	v.click(".composer textarea")
	v.types("desktop 300 200")
	v.press(enter)
	v.holds(`[...document.querySelectorAll(".permission button")].some((b) => b.textContent.includes("Allow") && (b.click(), true))`)
	v.shows(".chat .conversation", "viewer Ann has control of this desktop")
	if at := s.get(t, mainPath+"/mouse/position").want(t, 200).json(t); at["x"] != 160.0 {
		t.Errorf("an agent moved the pointer during the control of a person: %v", at)
	}
	v.click("#control")
	v.click("#control-release")
	v.shows("#control", "Take control")

	// Replay the click.
	v.click("#record")
	v.holds(`document.querySelector("#record").dataset.on === "false"`)
	v.click("#more")
	v.click("#recordings-open")
	v.holds(`Boolean(document.querySelector('#recordings [aria-label^="Play "]'))`)
	v.click(`#recordings [aria-label^="Play "]`)
	v.holds(`%s.readyState >= 2`, video)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("k"))
	v.holds(`(() => { const row = [...document.querySelectorAll(".row-of-moment")].find((e) => e.innerText.includes("mock: Click at 160, 120")); row?.click(); return Boolean(row); })()`)
	v.holds(`document.querySelector(".replay .mark")?.innerText === "mock: click"`)
	v.saveScreenshot("replay")
	v.click("#page-close")

	// Open a terminal, and drop a file.
	requireLibs(t)
	v.click(`#rail [aria-label="Terminal"]`)
	v.holds(`document.activeElement.matches(".xterm textarea")`)
	v.types("echo $((6*7))")
	v.press(enter)
	v.shows("#dock", "\n42\n")
	v.click(`#rail [aria-label="Files"]`)
	v.holds(`[...document.querySelectorAll(".pane.files input")].some((e) => e.value === %q)`, folder)
	testbrowser.Evaluate[bool](v.ctx, t, `(() => {
		const data = new DataTransfer();
		data.items.add(new File(["dropped"], "new.txt"));
		return document.querySelector(".pane.files .scroller").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })) || true;
	})()`)
	v.holds(`Boolean(document.querySelector('.pane.files [data-name="new.txt"]'))`)
	v.saveScreenshot("files")
	for _, width := range []int64{2560, 1100, 700, 320} {
		resize(t, v, width, 900)
		v.holds("innerWidth === %d && document.documentElement.scrollWidth <= innerWidth", width)
		v.holds(`document.querySelector("#side").offsetWidth >= 320 && [...document.querySelectorAll("#rail [aria-pressed=true]")].length === %d`, map[bool]int{true: 1, false: 2}[width < 700])
		v.saveScreenshot(fmt.Sprintf("width-%d", width))
	}
}

// TestPageOfSupervisor: a token of the scope supervise opens the panes that it may use.
func TestPageOfSupervisor(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	s.post(t, "/v1/sessions/one", fmt.Sprintf(`{"agent":"mock","directory":%q,"title":"First task"}`, t.TempDir())).want(t, 200)
	token := s.post(t, "/v1/tokens", `{"scope":"supervise"}`).want(t, 200).json(t)["token"].(string)
	v := s.view(t, "#token="+token)
	v.is("live")
	v.holds(`[...document.querySelectorAll("#rail button:not(.narrow)")].map((b) => b.title).join() === "Sessions,Terminal,Processes,Logs,Events,Desktops"`)
	v.click(`#rail [aria-label="Sessions"]`)
	v.click(".chat .sessions li button")
	v.shows(".chat .heading", "First task")
	v.click(".composer textarea")
	v.types("permission")
	v.press(enter)
	v.shows(".permission", "rm -rf build")
	v.holds(`[...document.querySelectorAll(".permission button")].some((b) => b.textContent.includes("Reject") && (b.click(), true))`)
	v.shows(".chat .conversation", "I was not allowed to run it")
	for _, pane := range []string{"Terminal", "Processes", "Logs", "Events", "Desktops"} {
		v.click(`#rail [aria-label="` + pane + `"]`)
		v.holds(`document.querySelector("#rail [aria-label=%s]").ariaPressed === "true" && [...document.querySelectorAll(".pane:not([hidden]) [role=alert]")].every((e) => e.hidden || !e.textContent)`, pane)
	}
	// With roots, there are the files of these.
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "note.txt"), []byte("for you"), 0o600); err != nil {
		t.Fatal(err)
	}
	withFiles := s.post(t, "/v1/tokens", fmt.Sprintf(`{"scope":"supervise","roots":[%q]}`, root)).want(t, 200).json(t)["token"].(string)
	files := v.another("#token=" + withFiles)
	files.is("live")
	files.click(`#rail [aria-label="Files"]`)
	files.holds(`document.querySelector('.pane.files [aria-label="Folder"]')?.value === %q`, root)
	files.click(`.files [data-name="note.txt"]`)
	files.shows(".preview-pane", "for you")
	files.saveScreenshot("files")
	for token, want := range map[string]string{token: `{"status":"ok","scope":"supervise"}`, s.Token(): `{"status":"ok"}`} {
		if got := s.do(t, call{path: "/v1/health", header: map[string]string{"Authorization": "Bearer " + token}}).want(t, 200).body; string(got) != want {
			t.Errorf("health = %s, want %s", got, want)
		}
	}
}
