package agents_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// deaf returns an agent that writes lines and "[end]" and reads nothing.
func deaf(lines ...string) func(context.Context, string) (agents.Launch, error) {
	return func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: func(ctx context.Context, _ io.Reader, out io.Writer) error {
			for _, line := range append(lines, "[end]") {
				if _, err := io.WriteString(out, line+"\n"); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}}, nil
	}
}

// asks returns a question with an id and one option, both as JSON.
func asks(id, option string) string {
	return fmt.Sprintf(`{"id":%s,"method":"session/request_permission","params":{"options":[{"optionId":%s,"name":"n","kind":"allow_once"}]}}`, id, option)
}

// A question with an id of more than 1 KiB is no message. Answers repeat the id, and the agent need
// not read them.
func TestLongIDs(t *testing.T) {
	t.Parallel()
	const n = 5
	var lines []string
	for i := range n {
		lines = append(lines, asks(fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 1<<20)), `"yes"`))
	}
	longest := `"` + strings.Repeat("é", 511) + `"`
	h := host(t, agents.Config{Permissions: agents.Policy{Mode: agents.Allow}, Launch: deaf(append(lines, asks(longest, `"yes"`))...)})
	post(t, h, "srv", `{"method":"hello"}`)
	invalid := 0
	for _, e := range follow(t, h, "srv", agents.Replay{}, "[end]") {
		if e.Kind == "_adapter/invalid_stdout" && strings.Contains(string(e.Payload), "1024") {
			invalid++
		}
	}
	all, err := h.Log().Requests(within(t), eventlog.RequestFilter{})
	if err != nil || len(all) != 1 || all[0].RPC != longest || all[0].State != eventlog.Answered || invalid != n {
		t.Errorf("%d questions, %v, and %d lines that are no messages; want one question and %d lines", len(all), err, invalid, n)
	}
}

// An option with an id of more than 1 KiB is not offered.
func TestLongOptionIDs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	h := host(t, agents.Config{Permissions: agents.Policy{Mode: agents.Allow}, Launch: deaf(asks("1", `"`+long+`"`))})
	post(t, h, "srv", `{"method":"hello"}`)
	follow(t, h, "srv", agents.Replay{}, "[end]")
	open, err := h.Log().Requests(within(t), eventlog.RequestFilter{Pending: true})
	if err != nil || len(open) != 1 {
		t.Fatalf("%d questions wait, %v, want one", len(open), err)
	}
	refused, ok := errors.AsType[*agents.InvalidError](h.Answer(within(t), "", open[0].PublicID, agents.Reply{Option: long}))
	if !ok || refused.Field != "option" {
		t.Errorf("Answer = %v", refused)
	}
}

// The host's own answers to an agent that reads nothing are bounded in bytes.
func TestUnreadLargeAnswers(t *testing.T) {
	t.Parallel()
	const n = 1500
	option := `"` + strings.Repeat(`\u0001`, 1<<10) + `"`
	var lines []string
	for i := range n {
		lines = append(lines, asks(fmt.Sprint(i), option))
	}
	h := host(t, agents.Config{Permissions: agents.Policy{Mode: agents.Allow}, Launch: deaf(lines...)})
	post(t, h, "srv", `{"method":"hello"}`)
	follow(t, h, "srv", agents.Replay{}, "[end]")
	open, err := h.Log().Requests(within(t), eventlog.RequestFilter{Pending: true, MaxParams: -1})
	const answered = 4<<20/(6<<10) + 512 // with a batch that is committed meanwhile
	if err != nil || len(open) < n-answered {
		t.Errorf("%d questions wait, %v, want all but %d", len(open), err, answered)
	}
}
