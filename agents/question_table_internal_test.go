package agents

import (
	"sync/atomic"
	"testing"
	"time"
)

// A question has no timer if it was answered before it was committed. Its id can be used again
// when the answer is in the log, and not before, because the log may refuse the answer.
func TestAnswersOfOneBatch(t *testing.T) {
	t.Parallel()
	table := questionTable{
		open: map[string]*question{}, closing: map[string]bool{}, maxBytes: 1 << 20, total: new(atomic.Int64),
		policy: Policy{Timeout: time.Hour}, outbox: newOutbox(1 << 20),
	}
	t.Cleanup(table.close)
	e, err := parseAgent([]byte(`{"id":1,"method":"session/request_permission","params":{"options":[]}}`))
	if err != nil {
		t.Fatal(err)
	}
	q := newQuestion("p", nil, e)
	uses := func(want bool, when string) {
		t.Helper()
		if got := table.uses([]byte("1.0")); got != want {
			t.Errorf("%s the table uses the id: %v", when, got)
		}
	}
	batch := newBatch("srv", "p")
	asked, refused, answered := batch.add(0), batch.add(0), batch.add(0)
	uses(false, "before the question")
	table.ask(asked, q)
	table.cancelFor(refused, nil)
	uses(true, "until the answer is in the log")
	for _, undo := range refused.undo {
		undo()
	}
	uses(true, "after an answer that the log refused")
	table.cancelFor(answered, nil)
	for _, fx := range []*effects{asked, answered} {
		for _, deliver := range fx.deliver {
			deliver()
		}
	}
	uses(false, "after the answer")
	if q.timer != nil {
		t.Error("a question that is answered has a timer")
	}
}
