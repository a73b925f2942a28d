package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestAllEventsOfAnswers: the event of an answer has what was decided, also if the answer is large
// or for a form.
func TestAllEventsOfAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.post(t, "/v1/sessions/mine", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	all := s.followAll(t, "topics=sessions,permissions", "")
	large := strings.Repeat("x", 100<<10)
	for _, tt := range []struct {
		message, result, want string
	}{
		{"permission", `{"outcome":{"outcome":"selected","optionId":"once"}}`, "selected"},
		{"permission", `{"outcome":{"outcome":"selected","optionId":"once"},"_meta":{"x":"` + large + `"}}`, "selected"},
		{"permission", `{"outcome":{"outcome":"cancelled"},"_meta":{"x":"` + large + `"}}`, "cancelled"},
		{"question", `{"action":"accept","content":{"colour":"blue"}}`, "accepted"},
		{"question", `{"action":"accept","content":{"colour":"blue"},"_meta":{"x":"` + large + `"}}`, "accepted"},
		{"question", `{"action":"decline"}`, "declined"},
		{"question", `{"action":"cancel"}`, "cancelled"},
	} {
		s.message(t, "mine", tt.message)
		all.awaitBoth("requested", "waiting")
		open, err := s.agents.Started().Log().Requests(t.Context(), eventlog.RequestFilter{Session: "mine", Pending: true})
		if err != nil {
			t.Fatal(err)
		}
		var asked eventlog.Request
		for _, q := range open {
			if q.PublicID != "" && q.Dir == eventlog.Agent {
				asked = q
			}
		}
		s.send(t, "/v1/acp/ses-mine", `{"jsonrpc":"2.0","id":`+asked.RPC+`,"result":`+tt.result+`}`).want(t, http.StatusAccepted)
		e := all.awaitBoth("answered", "idle")["answered"]
		if e.ID != asked.PublicID || e.Outcome != tt.want || strings.Contains(e.data, `"option":"once"`) != (tt.want == "selected") {
			t.Errorf("%.100s: %s, want %s", tt.result, e.data, tt.want)
		}
	}
}
