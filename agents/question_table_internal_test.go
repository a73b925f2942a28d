package agents

import (
	"sync/atomic"
	"testing"
	"time"
)

// A question has no timer if its id was used again before the question was committed.
func TestTimersOfOneBatch(t *testing.T) {
	t.Parallel()
	table := questionTable{open: map[string]*question{}, maxBytes: 1 << 20, total: new(atomic.Int64), policy: Policy{Timeout: time.Hour}}
	t.Cleanup(table.close)
	var asked []*question
	fx := &effects{}
	for range 2 {
		e, err := parseAgent([]byte(`{"id":1,"method":"session/request_permission","params":{"options":[]}}`))
		if err != nil {
			t.Fatal(err)
		}
		q := newQuestion("p", nil, e)
		table.ask(fx, q)
		asked = append(asked, q)
	}
	for _, deliver := range fx.deliver {
		deliver()
	}
	if asked[0].timer != nil || asked[1].timer == nil {
		t.Errorf("the old question has a timer: %v, the new one: %v", asked[0].timer != nil, asked[1].timer != nil)
	}
}
