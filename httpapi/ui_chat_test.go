package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	pageapi "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/internal/testbrowser"
)

// withMock has the mock agent installed, and no agent of this machine. It runs
// in this process.
func withMock(t *testing.T) Config {
	t.Helper()
	cfg := agentsConfig(t)
	cfg.AgentHost.Launch = func(_ context.Context, agent string) (agents.Launch, error) {
		if agent != "mock" {
			return agents.Launch{}, &registry.NotInstalledError{Agent: agent, Reason: "test", Remedy: "none"}
		}
		return agents.Launch{Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return mockagent.Run(ctx, in, out, mockagent.Config{})
		}}, nil
	}
	return cfg
}

// saveScreenshot keeps a picture of the page as an artifact of the test.
func (v *viewer) saveScreenshot(name string) {
	v.t.Helper()
	shot, err := chromedp.Call(v.ctx, pageapi.CaptureScreenshot, pageapi.CaptureScreenshotParams{})
	if err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.t.ArtifactDir(), name+".png"), shot.Data, 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// TestPageSessions: the pane starts a session, streams it, and lists the sessions of others.
func TestPageSessions(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.click(`#rail [aria-label="Sessions"]`)
	v.shows("#side", "No sessions yet")
	v.saveScreenshot("empty")

	v.click(".chat .empty button")
	v.holds(`location.hash === "#/s/new" && document.activeElement.id === "new-text"`)
	v.click(`.chat .agents [value="mock"]`)
	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#new-text", "demo"), chromedp.SendKeys("#new-folder", t.TempDir()))
	v.holds(`document.querySelector("#new-model").options.length === 3 && document.querySelector("#new-mode").options.length === 3`)
	v.saveScreenshot("new")
	v.click("#new-text")
	v.press(enter)
	v.shows(".chat .conversation", "Done. A test") // the rest depends on the parser of Markdown
	v.holds(`location.hash.startsWith("#/s/mock-") && document.querySelector(".chat .heading h2").textContent === "demo"`)
	v.shows(`.chat .plan summary`, "2 of 2 done")
	v.shows(`.chat .call[data-status=completed]`, "Read main.go")
	v.shows(`.chat .call[data-status=failed] details[open]`, "FAIL: TestDemo")
	v.holds(`document.querySelector(".chat .thought details").open === false`)
	v.click(".chat .thought summary")
	v.shows(".chat .thought", "First a plan, then the file.")
	v.shows(".chat .conversation header .state", "Ready")
	v.saveScreenshot("demo")

	// The composer sends with Enter, and adds a line with Shift+Enter.
	v.click(".composer textarea")
	v.types("diff")
	v.press(enter)
	v.shows(".chat .diff", "+5")
	v.holds(`[...document.querySelectorAll(".chat .diff .added")].some((r) => r.textContent.includes('fmt.Println("hello")')) && document.querySelector(".chat .diff .removed").textContent.includes("func main() {}")`)
	v.types("image")
	v.press(enter)
	v.holds(`document.querySelectorAll(".chat .thumbnail img").length === 2 && [...document.querySelectorAll(".chat .thumbnail img")].every((i) => i.naturalWidth === 64)`)
	v.click(".chat .thumbnail")
	v.holds(`document.querySelector(".lightbox").open`)
	v.click(".lightbox button")
	v.click(".composer textarea")
	v.types("two")
	v.key("keyDown", key{name: "Enter", code: "Enter", text: "\r", virtual: 13, modifiers: chromedp.ModifierShift})
	v.types("lines")
	v.holds(`document.querySelector(".composer textarea").value === "two\nlines"`)
	// The draft stays with its session.
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.holds(`document.querySelector(".composer textarea")?.value === "two\nlines" && document.querySelectorAll(".chat .call").length === 4`)
	v.shows(".chat .diff", "+5")
	v.saveScreenshot("draft")
	v.press(enter)
	v.holds(`/two\s+lines$/.test([...document.querySelectorAll(".chat .entry.text")].at(-1).textContent)`)

	// Sessions of others appear in the list, and what they say appears at once.
	s.post(t, "/v1/sessions/other", fmt.Sprintf(`{"agent":"mock","directory":%q,"title":"From a program"}`, t.TempDir())).want(t, 200)
	v.click(`.conversation [aria-label="Back to the sessions"]`)
	v.shows(".chat .sessions", "From a program")
	v.holds(`document.activeElement.textContent.startsWith("demo")`)
	v.saveScreenshot("list")
	v.click(".chat .sessions li:nth-child(1) button")
	v.holds(`location.hash === "#/s/other"`)
	s.post(t, "/v1/sessions/other/messages", `{"message":"hello there"}`).want(t, 204)
	v.holds(`Boolean([...document.querySelectorAll(".chat .entry.text")].at(-1)?.innerText.endsWith("hello there"))`)
	v.shows(".chat .conversation header .state", "Ready")
}

// TestPageHeavyMarkdown: no text of an agent holds the page up, or ends the display of the next one.
func TestPageHeavyMarkdown(t *testing.T) {
	t.Parallel()
	requireLibs(t)
	s := serve(t, withMock(t))
	s.post(t, "/v1/sessions/m", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	v := s.view(t, s.withToken()+"#/s/m")
	v.holds(`document.querySelector(".composer") !== null`)
	for _, text := range []string{
		strings.Repeat("*a_", 13_000), strings.Repeat("*a_\n", 10_000), strings.Repeat(">", 4000) + " a", strings.Repeat("- ", 4000) + "a",
		strings.Repeat("1. ", 4000) + "a", strings.Repeat("a", 40_000) + "@", "```\n```\n" + strings.Repeat("**a", 13_000), "``` `\n" + strings.Repeat("*a_", 13_000),
	} {
		message, err := json.Marshal(map[string]string{"message": text})
		if err != nil {
			t.Fatal(err)
		}
		s.post(t, "/v1/sessions/m/messages", string(message)).want(t, 204)
		v.shows(".conversation header .state", "Ready")
	}
	s.post(t, "/v1/sessions/m/messages", `{"message":"**after** all"}`).want(t, 204)
	v.holds(`[...document.querySelectorAll(".entry.text")].at(-1).querySelector("strong")?.textContent === "after"`)
}

// TestPageMarkdown: Markdown becomes elements, HTML stays text, and links go to the web alone.
func TestPageMarkdown(t *testing.T) {
	t.Parallel()
	requireLibs(t)
	s := serve(t, withMock(t))
	s.post(t, "/v1/sessions/m", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	v := s.view(t, s.withToken()+"#/s/m")
	v.holds(`document.querySelector(".composer") !== null`)
	s.post(t, "/v1/sessions/m/messages", `{"message":"markdown"}`).want(t, 204)
	v.shows(".conversation", "<b>HTML that must be shown, not run:</b> <script>alert(1)</script><img src=x onerror=alert(1)>")
	v.shows(".conversation header .state", "Ready")
	v.holds(`(() => {
		const has = (selector, text) => [...document.querySelectorAll(".markdown " + selector)].some((e) => e.textContent.includes(text));
		return has(".h1", "Heading") && has("strong", "bold") && has("em", "italic") && has("del", "struck") && has("code", "code") &&
			has("ul ul li", "below it") && has(".task", "done") && has("ol li", "second") && has("td.right", "22") && has("pre", 'fmt.Println("hello")') &&
			has("blockquote", "A quotation.") && !document.querySelector(".markdown script, .markdown img");
	})()`)
	v.saveScreenshot("markdown")
	s.post(t, "/v1/sessions/m/messages", `{"message":"[a](https://a.example/?x=1&y=2) [b](javascript:alert(1)) [c](mailto:c@d.example) ![d](http://e.example/p.png) &lt;f&gt; `+"`&lt;`"+`"}`).want(t, 204)
	v.holds(`(() => {
		const last = [...document.querySelectorAll(".entry.text")].at(-1);
		const links = [...last.querySelectorAll("a")];
		return links.map((a) => a.href).join(" ") === "https://a.example/?x=1&y=2 mailto:c@d.example http://e.example/p.png" &&
			links.every((a) => a.rel === "noopener noreferrer" && a.target === "_blank") && last.innerText.endsWith("a b c d <f> &lt;");
	})()`)
}

// conversation opens the page at a new session of the mock agent.
func (s *testServer) conversation(t *testing.T, id string) *viewer {
	t.Helper()
	s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q,"title":%q}`, t.TempDir(), id)).want(t, 200)
	v := s.view(t, s.withToken()+"#/s/"+id)
	v.shows(".conversation header .state", "Ready")
	v.holds(`document.querySelector(".settings select").options.length === 2`) // it has what the agent offers
	return v
}

// says sends a message by the composer.
func (v *viewer) says(text string) {
	v.t.Helper()
	v.click(".composer textarea")
	v.types(text)
	v.press(enter)
}

// TestPageCards looks at the cards of requests that want to mislead: invisible characters and
// nested arguments are shown, and the second click of a double click answers nothing.
func TestPageCards(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	v := s.conversation(t, "cards")
	got := testbrowser.Await[map[string]any](v.ctx, t, `(async () => {
		const { Permissions } = await import("./chat/permission.js");
		const box = document.body.appendChild(document.createElement("div"));
		box.className = "questions chat";
		const answered = [];
		const cards = new Permissions({ box, alarm: document.createElement("p"), folder: () => "/", answer: async ({ title }) => { answered.push(title); } });
		const asks = (title, input) => ({ title, input, diffs: [], options: [{ name: "Allow", kind: "allow_once" }] });
		const more = Object.fromEntries([...Array(12).keys()].map((i) => ["a" + i, i]));
		const all = new Map([["1", asks("first", { command: "echo \u202e}ko", cmd: "hidden", opts: { deep: ["rm -rf /"] }, ...more })], ["2", asks("second", {})],
			["3", { ...asks("third", {}), diffs: [{ path: "a\u202eb", before: "", after: "x = \u202e1\u200b\n" }] }], ["4", { ...asks("fourth", {}), diffs: [{ path: "odd", before: 5, after: "" }] }],
			["5", { ...asks("fifth", {}), diffs: [{ path: "long", before: "a\n", after: "\n".repeat(8 << 20) }, { path: "patch", unified: "--- a\n+++ b\n@@ -1,1 +1,30000 @@\n-a\n" + "+b\n".repeat(30000) }] }]]);
		cards.show(all, "Mock");
		const text = box.innerText;
		all.delete("2");
		cards.show(all, "Mock");
		const button = box.querySelector("button");
		const held = getComputedStyle(button).pointerEvents;
		await new Promise((done) => setTimeout(done, 700));
		const free = getComputedStyle(button).pointerEvents;
		box.remove();
		return { text, held, free };
	})()`)
	text := got["text"].(string)
	for _, want := range []string{`echo \u{202e}}ko`, "hidden", "rm -rf /", "a11", `a\u{202e}b`, `x = \u{202e}1\u{200b}`, "This request can't be shown in full", `"odd"`, "long\n+8388608\n−1\nToo many lines to show", "patch\n+30000\n−1\nToo many lines to show"} {
		if !strings.Contains(text, want) {
			t.Errorf("the card has no %q:\n%s", want, text)
		}
	}
	if got["held"] != "none" || got["free"] != "auto" {
		t.Errorf("a card that moved takes clicks: %v, later: %v", got["held"], got["free"])
	}
}

// TestPagePermissions: the agent's questions are shown with its own options, and answered by
// a click or a digit. A turn can be stopped.
func TestPagePermissions(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	v := s.conversation(t, "asks")
	const card = ".permission"
	v.says("permission")
	v.shows(card, "Mock needs permission")
	v.holds(`document.title.startsWith("● Permission")`)
	v.holds(`document.querySelector(".conversation > [role=alert]").textContent === "Mock asks: rm -rf build"`)
	v.holds(`document.querySelector(".permission pre.verbatim").textContent === "rm -rf build" && document.querySelector(".permission .folder").textContent.startsWith("in /")`)
	v.holds(`[...document.querySelectorAll(".permission button")].map((b) => b.lastChild.textContent).join() === "Always allow,Allow,Reject"`)
	v.shows(".conversation header .state", "Needs you")
	v.shows(".call[data-status=permission]", "Needs permission")
	v.saveScreenshot("permission")
	// A digit in a message is no answer, and Enter on the card is none.
	v.click(".composer textarea")
	v.types("2")
	v.holds(`document.querySelector(".composer textarea").value === "2"`)
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".permission").focus(); true`)
	v.press(enter)
	v.holds(`document.querySelectorAll(".permission button:not(:disabled)").length === 3`)
	v.types("2")
	v.holds(`document.querySelector(".permission") === null && document.activeElement === document.querySelector(".composer textarea")`)
	v.shows(".conversation", "I was allowed to run it (allow_once).")
	v.shows(".conversation .notice", "Allowed: rm -rf build")
	v.holds(`!document.title.includes("Permission") && document.querySelector(".composer textarea").value === "2"`)
	v.press(key{name: "Backspace", code: "Backspace", virtual: 8})

	// A plan that wants approval is a question.
	v.says("plan")
	v.shows(card, "Run the tests")
	v.shows(card, "Ready to code?")
	v.saveScreenshot("question")
	v.click(card + " button:nth-of-type(2)")
	v.shows(".conversation", "The plan was not approved.")
	v.says("plan")
	v.shows(card, "Ready to code?")
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".permission button").focus(); true`)
	v.press(enter)
	v.shows(".conversation", "The plan was approved.")
	v.holds(`document.activeElement === document.querySelector(".composer textarea")`)

	// A form has its questions in one card.
	v.says("question")
	v.shows(card, "Which colour?")
	v.saveScreenshot("form")
	v.click(card + ` input[value="red"]`)
	v.click(card + ` input[value="l"]`)
	v.click(card + " button:nth-of-type(1)")
	v.shows(".conversation", `You answered {"action":"accept","content":{"colour":"red","sizes":["l"]}}.`)
	v.says("question")
	v.shows(card, "Which colour?")
	v.click(card + " button.reject")
	v.shows(".conversation", `You answered {"action":"decline"}.`)

	// Others answer, too.
	v.says("permission")
	v.shows(card, "rm -rf build")
	var open struct {
		Permissions []struct{ ID string }
	}
	if err := json.Unmarshal(s.get(t, "/v1/permissions?session=asks").want(t, 200).body, &open); err != nil {
		t.Fatal(err)
	}
	s.post(t, "/v1/sessions/asks/permissions/"+open.Permissions[0].ID+"/reply", `{"reply":"reject"}`).want(t, 204)
	v.holds(`document.querySelector(".permission") === null`)
	v.shows(".conversation", "I was not allowed to run it (reject_once).")

	// Stop ends the turn, also one that asks.
	v.says("permission")
	v.shows(card, "rm -rf build")
	v.click(`.conversation [aria-label="Back to the sessions"]`)
	v.shows(".sessions li:first-child", "Needs you")
	v.holds(`document.title.startsWith("● Permission")`)
	v.saveScreenshot("waiting")
	v.click(".sessions li:first-child button")
	v.shows(card, "rm -rf build")
	v.holds(`document.activeElement === document.querySelector(".permission")`)
	v.click(".composer .stop")
	v.holds(`document.querySelector(".permission") === null`)
	v.shows(".conversation header .state", "Ready")
	v.says("slow")
	v.shows(".conversation .working", "Working…")
	v.shows(".conversation", "tick 1")
	v.saveScreenshot("running")
	// A message waits for the end of the turn.
	v.says("next")
	v.shows(".queued", "Sends when the agent is done: next")
	v.down(control)
	v.press(key{name: ".", code: "Period", virtual: 190, modifiers: chromedp.ModifierCtrl})
	v.up(control)
	v.holds(`[...document.querySelectorAll(".notice")].filter((n) => n.textContent === "Stopped").length === 2`)
	v.holds(`[...document.querySelectorAll(".entry.text")].at(-1).querySelector(".markdown").innerText === "next" && document.querySelector(".queued").hidden`)
}

// TestPageSessionFaults: a turn that fails has its reason and its remedy, and so has an agent
// that is not installed or not signed in.
func TestPageSessionFaults(t *testing.T) {
	t.Parallel()
	cfg := withMock(t)
	gate := slowNPM(t, &cfg)
	s := serve(t, cfg)
	s.rest.Early, s.rest.Beat = 20*time.Millisecond, 30*time.Millisecond // a failure is in the body of a 200
	v := s.conversation(t, "fails")
	v.says("error")
	v.shows(".entry.error", "the model is overloaded (529); try again in 30 s")
	v.click(".entry.error button:not(:disabled)")
	v.holds(`document.querySelectorAll(".entry.error").length === 2 && [...document.querySelectorAll(".entry.user")].at(-1).textContent === "Youerror"`)
	v.says("crash")
	v.shows(".conversation header .state", "Interrupted")
	v.holds(`[...document.querySelectorAll(".entry.error h3")].at(-1).textContent === "Mock stopped"`)
	v.saveScreenshot("interrupted")
	v.click(".entry.error:last-of-type button:not(:disabled)")
	v.holds(`[...document.querySelectorAll(".entry.text .markdown")].at(-1).innerText.endsWith("Continue where you left off.")`)
	v.shows(".conversation .notice", "The agent was started again.")
	v.shows(".conversation header .state", "Ready")

	// The mode, also when others change it.
	v.holds(`document.querySelector('.settings [aria-label="Mode"]').value === "normal"`)
	testbrowser.Evaluate[bool](v.ctx, t, `(() => { const s = document.querySelector('.settings [aria-label="Mode"]'); s.value = "plan"; s.dispatchEvent(new Event("change")); return true; })()`)
	eventually(t, "the mode is set", func() bool { return s.get(t, "/v1/sessions/fails").want(t, 200).json(t)["agentMode"] == "plan" })
	s.do(t, call{method: http.MethodPatch, path: "/v1/sessions/fails", body: `{"agentMode":"normal","model":"mock-fast"}`}).want(t, 204)
	v.holds(`document.querySelector('.settings [aria-label="Mode"]').value === "normal" && document.querySelector('.settings [aria-label="Model"]').value === "mock-fast"`)

	// The end of a session.
	v.click(`.conversation [aria-label="Session options"]`)
	v.click(`.conversation .items .danger`)
	v.shows("dialog[open] h2", "End the session?")
	v.click("dialog[open] .danger")
	v.shows(".conversation header .state", "Ended")
	v.holds(`document.querySelector(".composer textarea").disabled`)

	// An agent that is not there.
	testbrowser.Evaluate[string](v.ctx, t, `location.hash = "#/s/new"`)
	v.click(`.agents [value="gemini"]`)
	v.shows(".remedy", "Gemini CLI is not installed on the server.")
	v.holds(`document.querySelector(".new-session .primary").disabled`)
	v.saveScreenshot("not-installed")
	v.click(".remedy button")
	v.shows(".remedy", "Downloading…")
	if err := os.WriteFile(gate, []byte("bad\n"), 0); err != nil {
		t.Fatal(err)
	}
	v.shows(".remedy .problem", "Can't install Gemini CLI")
	v.shows(".remedy .problem", "ENOSPC")
	v.saveScreenshot("install-failed")
	v.click(".remedy button")
	v.shows(".remedy", "Downloading…")
	if err := os.WriteFile(gate, []byte("good\n"), 0); err != nil {
		t.Fatal(err)
	}
	v.shows(".remedy", "Set GEMINI_API_KEY where the server runs")
	v.shows(`.agents label:has([value="gemini"])`, "Not signed in")
	v.saveScreenshot("not-signed-in")
	// It does not start here, and the form says why.
	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#new-text", "hello"))
	v.click(".new-session .primary")
	v.shows(".new-session form > .problem", "The session couldn't start")
}

// TestPageAttachments: files that are dropped, pasted or chosen are uploaded to the
// session's folder and go with the message.
func TestPageAttachments(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	v := s.conversation(t, "files")
	const drop = `(() => {
		const data = new DataTransfer();
		data.items.add(new File(["hello"], "a file.txt", { type: "text/plain" }));
		const target = document.querySelector(%q);
		target.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
		const marked = document.querySelector(".dropping") !== null;
		target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		return marked && document.querySelector(".dropping") === null;
	})()`
	v.holds(drop, ".transcript")
	v.holds(`document.querySelectorAll(".composer .files li:not([aria-busy])").length === 1`)
	v.holds(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([new Uint8Array([1, 2])], "image.png", { type: "image/png" }));
		return !document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	})()`)
	v.holds(`document.querySelectorAll(".composer .files li:not([aria-busy])").length === 2`)
	v.saveScreenshot("attached")
	v.click(`.composer .files [aria-label="Remove image.png"]`)
	v.says("look at this")
	v.shows(".entry.user .attached", "a_file.txt")
	v.holds(`document.querySelector(".composer .files").hidden`)
	path := testbrowser.Evaluate[string](v.ctx, t, `document.querySelector(".entry.user .attached").title`)
	if text, err := os.ReadFile(path); err != nil || string(text) != "hello" {
		t.Errorf("%s: %q, %v", path, text, err)
	}
	eventually(t, "the end of the file that was removed", func() bool {
		kept, err := os.ReadDir(filepath.Dir(path))
		return err == nil && len(kept) == 1
	})
}

// TestPageComputerActions: the transcript shows where on the screen the agent acts.
func TestPageComputerActions(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	s.rawTerminal(t, "")
	s.post(t, "/v1/sessions/acts", fmt.Sprintf(`{"agent":"mock","directory":%q,"title":"Use the desktop","desktop":"main"}`, t.TempDir())).want(t, 200)
	v := s.view(t, s.withToken()+"#/s/acts")
	v.is("live")
	v.shows(".conversation header .state", "Ready")
	v.says(`tool screenshot {}`)
	v.shows(".call[data-status=completed]", "screenshot")
	v.holds(`document.querySelector(".call .thumbnail img").naturalWidth === 640`)
	v.says(`tool click {"coordinate":[320,150]}`)
	v.shows(".call:has(.crop)", "320, 150")
	v.holds(`(() => {
		const { left, top } = document.querySelector(".crop .cross").style;
		const { style, naturalWidth } = document.querySelector(".crop img");
		return naturalWidth === 640 && left === "104px" && top === "58px" && style.left === "-216px" && style.top === "-92px";
	})()`)
	// A drag has a cross at each end. At the edge of the screen the crop stays within it.
	v.says(`tool drag {"start_coordinate":[2,3],"coordinate":[90,60]}`)
	v.shows(".call:has(.cross + .cross)", "2, 3 → 90, 60")
	v.holds(`document.querySelector(".call:has(.cross + .cross) .cross").style.left === "2px"`)
	v.saveScreenshot("acts")
	seen := `new Promise((done) => {
		document.addEventListener("deskhand:seek", ({ detail }) => done(detail), { once: true });
		document.querySelector(".call:has(.crop) .link").click();
	})`
	at := testbrowser.Await[map[string]any](v.ctx, t, seen)
	if at["session"] != "acts" || at["source"] != "chat" || at["time"].(float64) < 1e12 {
		t.Errorf("the timeline gets %v", at)
	}
}

// TestPageSessionsFit: all views fit into wide and narrow pages, in the light and in the dark.
func TestPageSessionsFit(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	v := s.conversation(t, "fits")
	for _, text := range []string{"demo", "markdown", "diff", "permission"} {
		s.post(t, "/v1/sessions/fits/messages", fmt.Sprintf(`{"message":%q}`, text)).want(t, 204)
	}
	v.shows(".permission", "rm -rf build")
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{1280, 800, 390, 320} {
			testbrowser.Do(v.ctx, t, chromedp.EmulateViewport(width, 844))
			for _, view := range []string{"s", "s/new", "s/fits"} {
				testbrowser.Evaluate[string](v.ctx, t, `location.hash = "#/`+view+`"`)
				v.holds(`document.querySelector({ s: ".sessions", "s/new": ".agents label", "s/fits": ".permission" }[%q])?.offsetParent != null`, view)
				v.holds(`(() => {
					const wide = [...document.querySelectorAll(".chat .view:not([hidden]) *")].filter((e) => !e.closest(".wide, pre, .hidden, .crop") && e.getBoundingClientRect().right > innerWidth + 1 && e.offsetParent);
					return wide.length === 0 && document.documentElement.scrollWidth <= innerWidth;
				})()`)
				if width == 1280 || width == 390 {
					v.saveScreenshot(fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(view, "/", "-"), width, scheme))
				}
			}
		}
	}
}
