package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestEachStreamHasItsOwnTurn posts several messages to one session at once:
// each stream begins with the turn of its own message and ends with it,
// whatever else the session does meanwhile.
func TestEachStreamHasItsOwnTurn(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.post(t, "/v1/sessions/busy", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	var clients sync.WaitGroup
	for round := range 3 {
		for i := range 12 {
			clients.Go(func() {
				text := fmt.Sprintf("message %d of round %d", i, round)
				events := s.turn(t, "busy", text)
				if len(events) < 2 {
					t.Errorf("%s: %d events", text, len(events))
					return
				}
				first, last := events[0], events[len(events)-1]
				if first.Type != "turn.started" || last.Type != "turn.ended" || first.Data.TurnID != last.Data.TurnID {
					t.Errorf("%s: from %s of %q to %s of %q", text, first.Type, first.Data.TurnID, last.Type, last.Data.TurnID)
				}
				// What follows the beginning is what was said.
				if own := slices.IndexFunc(events, func(e universalEvent) bool { return e.Type == "item.completed" }); own < 0 ||
					said(events[own:own+1]) != text+"|" {
					t.Errorf("%s: the stream begins with the turn of %q", text, said(events))
				}
				if n := strings.Count(said(events), text+"|"); n < 2 {
					t.Errorf("%s: the stream has no answer: %q", text, said(events))
				}
			})
		}
		clients.Wait()
	}
}
