package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPageReloadsInTurn: a reload in the middle of a turn shows the turn go on, and a
// question that waits.
func TestPageReloadsInTurn(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	v := s.conversation(t, "one")
	v.says("slow")
	v.shows(".conversation", "tick 1")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.shows(".conversation header .state", "Working")
	v.shows(".conversation", "tick 2")
	v.holds(`(document.querySelector(".entry.text .markdown").innerText.match(/tick 1\b/g) ?? []).length === 1`)
	v.saveScreenshot("reloaded")
	v.click(".composer .stop")
	v.shows(".conversation header .state", "Ready")
	v.says("permission")
	v.shows(".permission", "rm -rf build")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.shows(".permission", "rm -rf build")
	v.click(".permission button:nth-of-type(2)")
	v.shows(".conversation", "I was allowed to run it")
}

// heldWriter holds back what follows the line before a text until a gate opens. It writes
// before, if there is one, what the line becomes by replacing.
type heldWriter struct {
	io.Writer
	text   string
	before *strings.Replacer
	gate   <-chan struct{}
}

func (w heldWriter) Write(p []byte) (int, error) {
	at := bytes.Index(p, []byte(w.text))
	if at < 0 {
		return w.Writer.Write(p)
	}
	line := bytes.LastIndexByte(p[:at], '\n') + 1
	if n, err := w.Writer.Write(p[:line]); err != nil {
		return n, err
	}
	if w.before != nil {
		held, _, _ := strings.Cut(string(p[line:]), "\n")
		if _, err := io.WriteString(w.Writer, w.before.Replace(held)+"\n"); err != nil {
			return line, err
		}
	}
	<-w.gate
	n, err := w.Writer.Write(p[line:])
	return line + n, err
}

// TestPageRunningTools: the row of a tool that runs says for how long, and what it has printed.
func TestPageRunningTools(t *testing.T) {
	t.Parallel()
	cfg := withMock(t)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	cfg.AgentHost.Launch = func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return mockagent.Run(ctx, in, heldWriter{out, `"status":"failed"`, strings.NewReplacer(`"failed"`, `"in_progress"`, "--- FAIL: TestDemo", "=== RUN TestDemo"), gate}, mockagent.Config{})
		}}, nil
	}
	s := serve(t, cfg)
	t.Cleanup(open)
	v := s.conversation(t, "one")
	v.says("demo")
	for _, least := range []int{1, 2} {
		v.holds(`parseFloat(document.querySelector(".call[data-status=in_progress] .time")?.textContent) >= %d`, least)
	}
	v.shows(".call[data-status=in_progress] pre", "=== RUN TestDemo")
	v.saveScreenshot("running")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.holds(`parseFloat(document.querySelector(".call[data-status=in_progress] .time")?.textContent) >= 2`)
	v.shows(".call[data-status=in_progress] pre", "=== RUN TestDemo")
	open()
	v.shows(`.call[data-status=failed]`, "FAIL: TestDemo")
	v.holds(`!document.querySelector(".call[data-status=failed]").textContent.includes("=== RUN")`)
	v.shows(".conversation header .state", "Ready")
}

// TestPageServerRestarts: after the server was ended in the middle of a turn and started
// again, the page says that the turn was stopped, and goes on.
func TestPageServerRestarts(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	cfg := withMock(t)
	cfg.StateDir, cfg.Token = t.TempDir(), "restarts"
	var addr string
	v := &viewer{t: t}
	t.Run("first server", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = ln.Addr().String()
		s := serveOn(t, ln, cfg)
		s.post(t, "/v1/sessions/one", fmt.Sprintf(`{"agent":"mock","directory":%q}`, cfg.StateDir)).want(t, 200)
		v.ctx = testbrowser.Open(v.t, s.url+"/ui/?token=restarts#/s/one")
		v.shows(".conversation header .state", "Ready")
		v.says("slow")
		v.shows(".conversation", "tick 1")
	})
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, ln, cfg)
	v.shows(".conversation .notice", "Stopped")
	v.shows(".conversation header .state", "Ready")
	v.saveScreenshot("restarted")
	v.says("hello again")
	v.holds(`[...document.querySelectorAll(".entry.text .markdown")].at(-1).innerText.endsWith("hello again")`)
	v.shows(".conversation header .state", "Ready")
	// What others do arrives as before.
	s.post(t, "/v1/sessions/one/messages", `{"message":"permission"}`).want(t, 204)
	v.shows(".permission", "rm -rf build")
	v.holds(`document.title.startsWith("● Permission")`)
}

// TestPageTogether: two people and an agent use one desktop, and each sees what the others do.
func TestPageTogether(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	s.rawTerminal(t, "")
	s.post(t, "/v1/sessions/one", fmt.Sprintf(`{"agent":"mock","directory":%q,"desktop":"main","title":"Click"}`, t.TempDir())).want(t, 200)
	ann := s.view(t, s.withToken()+"&name=Ann#/s/one")
	ann.is("live")
	bob := ann.another(s.withToken() + "&name=Bob#/s/one")
	bob.is("live")
	ann.holds(`parseInt(document.querySelector("#people").innerText) >= 2`)
	ann.says("desktop 160 120")
	for _, v := range []*viewer{ann, bob} {
		v.shows(".permission", "Click at 160, 120")
		v.holds(`document.title.startsWith("● Permission")`)
	}
	// Bob answers. Both see the click.
	for _, v := range []*viewer{ann, bob} {
		testbrowser.Evaluate[bool](v.ctx, t, `(() => {
			window.seen = [];
			new MutationObserver((all) => all.forEach(({ addedNodes }) => addedNodes.forEach((e) => window.seen.push(e.textContent + " by " + e.dataset.kind))))
				.observe(document.querySelector("#actions"), { childList: true });
			return true;
		})()`)
	}
	bob.holds(`[...document.querySelectorAll(".permission button")].some((b) => b.textContent.includes("Allow") && (b.click(), true))`)
	for _, v := range []*viewer{ann, bob} {
		v.holds(`window.seen.includes("mock: click by agent")`)
		v.shows(".conversation", "click completed")
		v.holds(`document.title === "deskhand" && !document.querySelector(".permission")`)
	}
	// Ann takes control, and Bob and the agent have to wait.
	ann.click("#control")
	ann.shows("#control", "You · in control")
	bob.shows("#control", "Ann · in control")
	bob.click("#control")
	bob.shows("#control-panel", "Ann")
	bob.saveScreenshot("bob")
	ann.saveScreenshot("ann")
}
