package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageWaits: permission requests are in the title and on the rail before a pane was
// opened, and on a phone over the picture.
func TestPageWaits(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	for _, id := range []string{"one", "two"} {
		s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	}
	asks := func(id, text string) {
		t.Helper()
		s.post(t, "/v1/sessions/"+id+"/messages", fmt.Sprintf(`{"message":%q}`, text)).want(t, 204)
	}
	asks("one", "permission")
	v := s.view(t, s.withToken())
	v.is("live")
	v.holds(`document.title === "● Permission · deskhand"`)
	v.holds(`document.querySelector('#rail [aria-label="Sessions"]').dataset.count === "1"`)
	asks("two", "plan")
	v.holds(`document.querySelector('#rail [aria-label="Sessions"]').title === "Sessions: 2 permission requests"`)
	v.holds(`document.querySelector("#announce").textContent === "2 permission requests. Open Sessions to answer."`)
	v.holds(`document.querySelector(".sheet") === null && !document.querySelector(".pane.chat")`)
	v.saveScreenshot("badge")

	testbrowser.Do(v.ctx, t, chromedp.EmulateViewport(390, 844))
	v.shows(".sheet", "rm -rf build")
	v.shows(".sheet", "mock needs permission")
	v.holds(`(() => {
		const { top, bottom, left, right } = document.querySelector(".sheet").getBoundingClientRect();
		return left === 0 && right === 390 && top > 200 && bottom <= document.querySelector("#rail").getBoundingClientRect().top &&
			[...document.querySelectorAll(".sheet .options button")].every((b) => b.offsetHeight >= 44);
	})()`)
	v.saveScreenshot("sheet")
	v.click(".sheet .options button:nth-of-type(2)")
	v.shows(".sheet", "Ready to code?")
	v.saveScreenshot("sheet-plan")
	v.click(`.sheet [aria-label="Answer later"]`)
	v.holds(`document.querySelector(".sheet").hidden && document.title.startsWith("● Permission")`)
	eventually(t, "the first session is allowed", func() bool { return s.get(t, "/v1/sessions/one").want(t, 200).json(t)["state"] == "idle" })

	// The sheet leaves for the pane of sessions, where the other request waits.
	asks("one", "permission")
	v.shows(".sheet", "rm -rf build")
	v.click(".sheet .link")
	v.shows(".permission", "rm -rf build")
	v.holds(`location.hash === "#/s/one" && document.querySelector(".sheet").hidden`)
	v.click(".conversation .permission button:nth-of-type(3)")
	v.holds(`document.querySelector('#rail [aria-label="Sessions"]').dataset.count === "1"`)
	s.post(t, "/v1/sessions/two/cancel", "{}").want(t, 204)
	v.holds(`document.title === "deskhand" && !("count" in document.querySelector('#rail [aria-label="Sessions"]').dataset)`)
}

// TestPageSheetIncomplete: over the picture, a request that is not shown in full has no answers.
func TestPageSheetIncomplete(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		if err := tx.PutSession(eventlog.Session{ID: "asked", Agent: "mock", Origin: "rest", State: eventlog.Waiting}); err != nil {
			return err
		}
		for i, q := range []eventlog.Request{
			{Method: "session/request_permission", Params: fmt.Appendf(nil, `{"toolCall":{"title":"Write","rawInput":%q},"options":[{"optionId":"yes","name":"Allow"}]}`, strings.Repeat("x", 300<<10))},
			{Method: agents.MethodForm, Params: []byte(`{"mode":"form","message":"Please choose.","requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}}`)},
		} {
			q.RequestKey = eventlog.RequestKey{Process: "gone", Dir: eventlog.Agent, RPC: fmt.Sprint(i)}
			q.Session, q.PublicID = "asked", fmt.Sprint("q", i)
			if err := tx.PutRequest(q); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	v := s.view(t, s.withToken())
	v.is("live")
	testbrowser.Do(v.ctx, t, chromedp.EmulateViewport(390, 844))
	v.shows(".sheet", "Write")
	v.shows(".sheet", "Too large to show here. Open the session to answer.")
	v.holds(`!document.querySelector(".sheet .options button")`)
	v.click(`.sheet [aria-label="Answer later"]`)
	v.shows(".sheet", "Please choose.")
	v.shows(".sheet", "Open the session to answer.")
	v.holds(`!document.querySelector(".sheet .options button")`)
	v.click(".sheet .link")
	v.holds(`location.hash === "#/s/asked"`)
}
