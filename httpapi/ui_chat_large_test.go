package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageLargeSession: older rows are there once and in their order if the server sends their
// events in several pages, because they are large.
func TestPageLargeSession(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	s.post(t, "/v1/sessions/large", fmt.Sprintf(`{"agent":"mock","directory":%q,"title":"large"}`, t.TempDir())).want(t, 200)
	const calls = 400
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		for i := range calls {
			for _, update := range []string{
				fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"c%d","title":"Read %[1]d.go","kind":"read","status":"in_progress","rawInput":%q}`, i, strings.Repeat("x", 16<<10)),
				fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"c%d","status":"completed"}`, i),
			} {
				_, err := tx.Append(eventlog.Event{
					Stream: agents.SessionStream("large"), Session: "large", Process: "p", Dir: eventlog.Agent, Kind: "session/update",
					Payload: fmt.Appendf(nil, `{"params":{"update":%s}}`, update),
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.get(t, "/v1/sessions/large/events?offset=100000").want(t, 200) // makes the events
	v := s.view(t, s.withToken()+"#/s/large")
	v.holds(`[...document.querySelectorAll(".call")].some((c) => c.textContent.includes("Read %d.go"))`, calls-1)
	testbrowser.Evaluate[bool](v.ctx, t, `window.seen = new Set(), true`)
	v.holds(`(() => {
		const box = document.querySelector(".transcript");
		for (const b of document.querySelectorAll(".call b")) seen.add(b.textContent);
		if (seen.has("Read 0.go")) return true;
		box.scrollTop -= 400;
		return false;
	})()`)
	if n := testbrowser.Evaluate[int](v.ctx, t, `seen.size`); n != calls {
		t.Errorf("the page has shown %d calls of %d", n, calls)
	}
}
