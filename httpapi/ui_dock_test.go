package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageProcesses: the page lists processes, locks the processes of desktops and the
// server, and stops, kills and deletes the processes of clients. It shows their logs.
func TestPageProcesses(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	id := s.create(t, shell(`echo first; echo wrong >&2; for i in $(seq 5000); do echo line $i; done; while read x; do echo got $x; done; exit 4`, ""))["id"].(string)
	tty := s.tty(t, "echo in a terminal; cat", "")
	v := s.view(t, s.withToken())
	v.is("live")
	v.click(`#rail [aria-label="Processes"]`)
	row := fmt.Sprintf(`.processes [data-id=%q] `, id)
	v.shows(row+".status", "Running")
	v.shows(".processes tbody:nth-of-type(2)", "Xvfb")
	v.holds(`document.querySelectorAll(".processes tbody:nth-of-type(2) .danger").length === 0`)
	v.holds(`document.querySelector('.processes [data-id="%s"] [aria-label="Terminal sh"]').hidden === false && document.querySelector('%s[aria-label="Terminal sh"]').hidden`, tty, row)
	v.shots("processes")

	// The log: the last lines, pinned to the end.
	v.click(row + `[aria-label="Logs sh"]`)
	v.shows(".logs .lines", "line 5000")
	v.holds(`document.querySelector(".lines").children.length === 3000 && document.querySelector(".lines").textContent.includes("line 2001")`)
	v.holds(`(({ scrollTop, scrollHeight, clientHeight }) => scrollTop + clientHeight > scrollHeight - 24)(document.querySelector(".lines"))`)
	v.shots("logs")
	input := func(text string) {
		t.Helper()
		s.post(t, "/v1/processes/"+id+"/input", fmt.Sprintf(`{"data":%q,"encoding":"utf8"}`, text+"\n")).want(t, 200)
	}
	input("one")
	v.shows(".lines", "got one")
	// A pause loses nothing.
	v.click(".logs header button")
	input("two")
	v.shows(".logs header button", "Continue (1 new)")
	v.holds(`!document.querySelector(".lines").textContent.includes("got two")`)
	v.click(".logs header button")
	v.shows(".lines", "got two")
	// A reader of earlier lines stays there.
	testbrowser.Evaluate[float64](v.ctx, t, `document.querySelector(".lines").scrollTop = 100`)
	input("three")
	v.shows(".below", "1 new")
	v.holds(`document.querySelector(".lines").scrollTop <= 100`)
	v.click(".below")
	v.holds(`document.querySelector(".below").hidden && document.activeElement.matches(".lines")`)
	testbrowser.Do(v.ctx, t, chromedp.SendKeys(".logs input", "GOT T"))
	v.shows(".found", "2 of 3000 lines")
	v.holds(`[...document.querySelectorAll(".lines > div")].filter((e) => !e.hidden).map((e) => e.textContent).join() === "got two,got three"`)
	input("t more")
	v.shows(".found", "3 of 3000 lines")
	testbrowser.Evaluate[bool](v.ctx, t, `(() => { const e = document.querySelector(".logs input"); e.value = ""; return e.dispatchEvent(new Event("input")); })()`)
	// Only one of the streams.
	testbrowser.Evaluate[bool](v.ctx, t, `(() => { const e = document.querySelector('.logs [aria-label="Output"]'); e.value = "stderr"; return e.dispatchEvent(new Event("change")); })()`)
	v.holds(`document.querySelector(".lines").innerText.trim() === "wrong"`)
	// What is downloaded is read instead.
	testbrowser.Evaluate[bool](v.ctx, t, `(URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return "about:blank#"; }, HTMLAnchorElement.prototype.click = function click() { window.savedAs = this.download; }, true)`)
	v.click(`.logs [aria-label="Download the log"]`)
	v.holds(`window.savedAs + " " + window.saved === "%s.log wrong\n"`, id)
	s.post(t, "/v1/processes/"+id+"/input/close", "").want(t, 200)
	v.shows(".logs .end", "Exited with code 4")

	// Stop, kill and delete.
	v.click(`#rail [aria-label="Processes"]`)
	v.shows(row+".status", "Exited with code 4")
	v.click(row + `[aria-label="Delete… sh"]`)
	v.shows("dialog[open] h2", "Delete this process?")
	v.click("dialog[open] .danger")
	v.holds(`!document.querySelector('%s')`, strings.TrimSpace(row))
	s.get(t, "/v1/processes/"+id).want(t, 404)
	v.click(fmt.Sprintf(`.processes [data-id=%q] [aria-label="Kill… sh"]`, tty))
	v.click("dialog[open] .danger")
	v.shows(fmt.Sprintf(`.processes [data-id=%q] .status`, tty), "Ended by SIGKILL")
}

// TestPageFileTree: the page shows, makes, renames and deletes files, and takes dropped ones.
func TestPageFileTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a/deep/x.txt": "deep", "note.txt": "hello <b>you</b>\n", "b ü.bin": "a\x00b", "pixel.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="red"/></svg>`} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken(), fmt.Sprintf(`localStorage.setItem("folder", %q)`, dir))
	v.is("live")
	// Files that are dropped before the pane has its folder are refused.
	testbrowser.Evaluate[bool](v.ctx, t, `(() => {
		const real = window.fetch;
		window.fetch = (url, init) => (String(url).includes("fs/stat") ? new Promise((done) => { window.goOn = () => { window.fetch = real; done(real(url, init)); }; }) : real(url, init));
		return true;
	})()`)
	v.click(`#rail [aria-label="Files"]`)
	v.holds(`Boolean(window.goOn && document.querySelector(".files .scroller"))`)
	v.holds(`(() => {
		const data = new DataTransfer();
		data.items.add(new File(["early"], "early.txt"));
		document.querySelector(".files .scroller").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		return true;
	})()`)
	v.shows(".files .problem", "Drop the files again")
	testbrowser.Evaluate[bool](v.ctx, t, `window.goOn(), true`)
	names := func(want string) {
		t.Helper()
		v.holds(`[...document.querySelectorAll(".files .open")].map((e) => e.dataset.name).join() === %q`, want)
	}
	names("a,b ü.bin,note.txt,pixel.svg")
	v.holds(`document.querySelector(".tree [aria-selected=true]")?.dataset.path === %q`, dir)
	v.click(`.files [data-name="note.txt"]`)
	v.shows(".preview-pane", "hello <b>you</b>")
	v.click(`.files [data-name="b ü.bin"]`)
	v.shows(".preview-pane", "isn't text")
	v.click(`.files [data-name="pixel.svg"]`)
	v.holds(`document.querySelector(".preview-pane img")?.naturalWidth === 40`)
	v.shots("files")
	v.click(`[aria-label="Close the preview"]`)
	v.holds(`document.activeElement.dataset.name === "pixel.svg"`)

	// The tree, by keys.
	testbrowser.Do(v.ctx, t, chromedp.Focus(`.tree [aria-selected=true]`), chromedp.KeyEvent(kb.ArrowRight))
	v.holds(`document.activeElement.dataset.path === %q`, dir+"/a")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.ArrowRight))
	v.holds(`document.activeElement.ariaExpanded === "true"`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Enter))
	names("x.txt")
	v.click(`.files [aria-label="Parent folder"]`)
	names("deep")
	testbrowser.Do(v.ctx, t, chromedp.SetValue(".files header input", dir), chromedp.Focus(".files header input"), chromedp.KeyEvent(kb.Enter))
	names("a,b ü.bin,note.txt,pixel.svg")

	// New folder, rename, delete.
	v.click(`.files [aria-label="New folder"]`)
	v.types("made")
	v.press(enter)
	names("a,made,b ü.bin,note.txt,pixel.svg")
	v.holds(`document.activeElement.dataset.name === "made"`)
	v.click(`.files [aria-label="Rename note.txt"]`)
	v.holds(`document.activeElement.selectionEnd === 4`)
	v.types("letter")
	v.press(enter)
	names("a,made,b ü.bin,letter.txt,pixel.svg")
	v.click(`.files [aria-label="Delete a"]`)
	v.shows("dialog[open] p", "Everything in it is deleted")
	v.click("dialog[open] .danger")
	names("made,b ü.bin,letter.txt,pixel.svg")
	// What others change appears.
	if err := os.WriteFile(filepath.Join(dir, "other.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names("made,b ü.bin,letter.txt,other.txt,pixel.svg")

	// Drop: into the folder that is shown, into one of the list, and over a file.
	drop := func(selector, name, text string) {
		t.Helper()
		v.holds(`(() => {
			const data = new DataTransfer();
			data.items.add(new File([%q], %q));
			const target = document.querySelector(%q);
			target.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
			window.dropText = document.querySelector(".drop").textContent;
			return target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })) || true;
		})()`, text, name, selector)
	}
	has := func(name, want string) {
		t.Helper()
		eventually(t, name, func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			return err == nil && string(text) == want
		})
	}
	drop(".files .scroller", "new.txt", "dropped")
	has("new.txt", "dropped")
	names("made,b ü.bin,letter.txt,new.txt,other.txt,pixel.svg")
	drop(`.files [data-name="made"]`, "inside.txt", "below")
	v.holds(`window.dropText === "Drop to upload to " + %q`, dir+"/made")
	has("made/inside.txt", "below")
	drop(".files .scroller", "new.txt", "second")
	v.shows(".uploads", "A file of this name exists")
	v.shots("conflict")
	v.click(`[aria-label="Keep both: new.txt"]`)
	has("new (2).txt", "second")
	has("new.txt", "dropped")
	drop(".files .scroller", "new.txt", "third")
	v.click(`[aria-label="Replace: new.txt"]`)
	has("new.txt", "third")
	s.get(t, "/v1/fs/stat?path="+dir+"/new.txt").want(t, 200)

	// An upload that hangs is canceled, and one that failed is sent again.
	conditions := cdp.Command[network.OverrideNetworkStateParams, cdp.Empty]{Method: "Network.emulateNetworkConditions"}
	slow := func(bytes float64) {
		t.Helper()
		if _, err := chromedp.Call(v.ctx, conditions, network.OverrideNetworkStateParams{DownloadThroughput: -1, UploadThroughput: bytes}); err != nil {
			t.Fatal(err)
		}
	}
	slow(20_000)
	drop(".files .scroller", "slow.txt", strings.Repeat("slow", 100_000))
	v.shows(".uploads", "of 400 kB")
	v.shots("upload")
	v.click(`[aria-label="Cancel: slow.txt"]`)
	v.holds(`![...document.querySelectorAll(".uploads li")].some((e) => e.textContent.includes("slow.txt"))`)
	slow(-1)
	v.holds(`(() => { window.send = XMLHttpRequest.prototype.send; XMLHttpRequest.prototype.send = function () { setTimeout(() => this.dispatchEvent(new Event("error"))); }; return true; })()`)
	drop(".files .scroller", "again.txt", "sent again")
	v.shows(".uploads [data-state=failed]", "again.txt")
	v.shots("upload-failed")
	v.holds(`(() => { XMLHttpRequest.prototype.send = window.send; return true; })()`)
	v.click(`[aria-label="Retry: again.txt"]`)
	has("again.txt", "sent again")
}

// TestPageEvents: the page shows its own calls, and the events of the desktop and of
// sessions, each as a command without the token.
func TestPageEvents(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	testbrowser.Evaluate[bool](v.ctx, t, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	v.click(`#rail [aria-label="Events"]`)
	v.shows(".event-rows", "/v1/sessions")
	last := `[...document.querySelectorAll(".event-rows li")].findLast((e) => e.textContent.includes("%s"))`
	v.holds(`/GET.*200\d+ms/.test(`+last+`.textContent.replace(/\s/g, ""))`, "/v1/sessions")
	v.holds(`(`+last+`.querySelector("button").click(), window.copied === 'curl -H "Authorization: Bearer $TOKEN" ' + "'" + %q + "'")`, "/v1/sessions", s.url+"/v1/sessions")
	testbrowser.Await[bool](v.ctx, t, `import(document.querySelector('script[type="module"]').src.replace("main.js", "api.js")).then(({ server }) => server("POST", "processes", { command: "true", args: ["it's"] }).then(() => true))`)
	v.holds(`(`+last+`?.querySelector("button").click(), window.copied?.includes(`+"`"+`--json '{"command":"true","args":["it'\\''s"]}'`+"`"+`))`, "/v1/processes")
	v.holds(last+`.querySelector(".status").textContent === "200"`, "/v1/processes")
	testbrowser.Await[bool](v.ctx, t, `import(document.querySelector('script[type="module"]').src.replace("main.js", "api.js")).then(({ server }) => server("POST", "sessions/none/questions/one/reply", { answers: [["secret"]] }).catch(() => true))`)
	v.holds(`(`+last+`?.querySelector("button").click(), window.copied?.includes("/questions/one/reply"))`, "/reply")
	if copied := testbrowser.Evaluate[string](v.ctx, t, `window.copied`); strings.Contains(copied, "secret") {
		t.Errorf("an answer to a question is in the command %s", copied)
	}
	v.shots("requests")

	choose := func(value string) {
		t.Helper()
		testbrowser.Evaluate[bool](v.ctx, t, fmt.Sprintf(`(() => { const e = document.querySelector(".events select"); e.value = %q; return e.dispatchEvent(new Event("change")); })()`, value))
	}
	choose("desktop")
	eventually(t, "the page shows events of the desktop", func() bool {
		s.post(t, mainPath+"/mouse/move", `{"x":11,"y":22}`).want(t, 200)
		return testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".event-rows").textContent.includes('"x": 11')`)
	})
	v.click(".events header button:nth-of-type(1)") // a pause
	s.post(t, mainPath+"/keyboard/type", `{"text":"unseen so far"}`).want(t, 200)
	v.shows(".events header button", "Continue (")
	v.holds(`!document.querySelector(".event-rows").textContent.includes("unseen so far")`)
	v.click(".events header button:nth-of-type(1)")
	v.holds(`document.querySelector(".event-rows").textContent.includes("unseen so far")`)
	testbrowser.Do(v.ctx, t, chromedp.SendKeys(".events input", "UNSEEN"))
	v.holds(`[...document.querySelectorAll(".event-rows li")].filter((e) => !e.hidden).every((e) => e.textContent.includes("unseen"))`)
	v.click(".event-rows li:not([hidden]) summary")
	v.shows(".event-rows li:not([hidden]) pre", "unseen so far")
	v.click(".events header button:nth-of-type(2)")
	v.holds(`window.copied === 'curl -N -H "Authorization: Bearer $TOKEN" ' + "'" + %q + "'"`, s.url+"/v1/desktop/events")
	v.shots("events")

	testbrowser.Evaluate[bool](v.ctx, t, `(() => { const e = document.querySelector(".events input"); e.value = ""; return e.dispatchEvent(new Event("input")); })()`)
	s.post(t, "/v1/sessions/one", `{"agent":"mock"}`).want(t, 200)
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".events select").dispatchEvent(new Event("focus"))`)
	v.holds(`[...document.querySelectorAll(".events option")].some((e) => e.value === "session one")`)
	choose("session one")
	v.shows(".event-rows", "session.started")
	if strings.Contains(testbrowser.Evaluate[string](v.ctx, t, `document.body.innerText`), s.Token()) {
		t.Error("the token can be read on the page")
	}
}
