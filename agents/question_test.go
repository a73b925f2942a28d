package agents_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testlog"
)

// A limited number of an agent's questions wait. The others fail immediately.
func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ asked, size, taken int }{
		"number": {1100, 0, 1024},
		"bytes":  {6, 300 << 10, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := host(t, agents.Config{MaxMessageBytes: 1 << 20})
			session := newSession(t, h, "srv")
			flood := func(n int) {
				t.Helper()
				prompt(t, h, "srv", session, fmt.Sprintf("flood %d %d %d", n, c.size, min(n, c.taken)))
			}
			flood(c.asked)
			open := func(want int) []eventlog.Request {
				t.Helper()
				all, err := h.Requests(within(t), session)
				if err != nil || len(all) != want {
					t.Fatalf("%d questions wait, %v, want %d", len(all), err, want)
				}
				return all
			}
			checkRefused(t, h, session, c.asked, c.taken)
			// There is room again when one is answered.
			if err := h.Answer(within(t), session, open(c.taken)[0].PublicID, agents.Reply{Cancel: true}); err != nil {
				t.Fatal(err)
			}
			post(t, h, "srv", `{"id":9,"method":"raw","params":{"line":"{\"id\":\"more\",\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"`+session+`\"}}"}}`)
			open(c.taken)
			if err := h.Cancel(within(t), session); err != nil {
				t.Fatal(err)
			}
			open(0)
			flood(1)
			open(1)
		})
	}
}

// An agent can use the id of a question again after the answer. A late answer to the first question
// does not count for the second.
func TestQuestionIDUsedAgain(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	session := newSession(t, h, "srv")
	asked := func(title string) eventlog.Request {
		t.Helper()
		writeLine(t, h, fmt.Sprintf(`{"id":7,"method":"session/request_permission","params":{"sessionId":%q,"toolCall":{"toolCallId":"t","title":%q},`+
			`"options":[{"optionId":"a","name":"Yes","kind":"allow_once"}]}}`, session, title))
		open, err := h.Requests(within(t), session)
		if err != nil || len(open) != 1 || !bytes.Contains(open[0].Params, []byte(title)) {
			t.Fatalf("the open questions are %v, %v, want %s", open, err, title)
		}
		return open[0]
	}
	answer := func(q eventlog.Request) error {
		return h.Answer(within(t), session, q.PublicID, agents.Reply{Option: "a"})
	}
	first := asked("Read README")
	if err := answer(first); err != nil {
		t.Fatal(err)
	}
	second := asked("rm -rf")
	if err := answer(first); !errors.Is(err, agents.ErrRequestNotFound) {
		t.Errorf("a late answer to the first question: %v", err)
	}
	// The ids follow from the log.
	var ids []string
	for _, e := range stream(t, h, session) {
		if e.Kind == "session/request_permission" {
			ids = append(ids, agents.QuestionID(e.ID))
		}
	}
	if want := []string{first.PublicID, second.PublicID}; !slices.Equal(ids, want) {
		t.Errorf("the log has the questions %v, want %v", ids, want)
	}
	if err := answer(second); err != nil {
		t.Error(err)
	}
}

// checkRefused checks the events of a flood.
func checkRefused(t *testing.T, h *agents.Host, session string, asked, taken int) {
	t.Helper()
	questions, refused, shown := 0, 0, 0
	for stream, f := range map[string]func(eventlog.Event){
		agents.SessionStream(session): func(e eventlog.Event) {
			switch {
			case e.Kind == "session/request_permission":
				questions++
			case strings.HasPrefix(e.Kind, "response:session/request") && e.Dir == eventlog.Daemon && bytes.Contains(e.Payload, []byte(`"error"`)):
				refused++
			}
		},
		"acp:srv": func(e eventlog.Event) {
			if e.Kind == "session/request_permission" {
				shown++
			}
		},
	} {
		for after := int64(0); ; {
			page, err := h.Log().Read(within(t), stream, after, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				f(e)
				after = e.Seq
			}
		}
	}
	if questions != asked || shown != asked || refused != asked-taken {
		t.Errorf("the log has %d questions, followers %d, and %d were refused; want %d, %d", questions, shown, refused, asked, asked-taken)
	}
}

// A request with the id of one that waits for its answer is dropped, whatever it asks, so that the
// answer to the first counts for no other.
func TestQuestionIDStillOpen(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	session := newSession(t, h, "srv")
	write := func(id, method, title string) {
		t.Helper()
		writeLine(t, h, fmt.Sprintf(`{"id":%s,"method":%q,"params":{"sessionId":%q,"toolCall":{"toolCallId":"t","title":%q},`+
			`"options":[{"optionId":"a","name":"Yes","kind":"allow_once"}]}}`, id, method, session, title))
	}
	methods := []string{"session/request_permission", agents.MethodForm, "fs/read_text_file"}
	long := strings.Repeat("long", 100)
	for i, first := range methods {
		for id, spelled := range map[string]string{fmt.Sprint(i): fmt.Sprint(i, ".0"), fmt.Sprintf(`"%d%s"`, i, long): fmt.Sprintf(`"\u003%d%s"`, i, long)} {
			write(id, first, "Read README")
			for _, second := range methods {
				write(id, second, "rm -rf")
				write(spelled, second, "rm -rf")
			}
		}
	}
	writeLine(t, h, `{"method":"end"}`)
	dropped := 0
	for _, e := range follow(t, h, "srv", agents.Replay{All: true}, `{"method":"end"}`) {
		if e.Kind == "_adapter/invalid_stdout" && bytes.Contains(e.Payload, []byte("rm -rf")) {
			dropped++
		} else if bytes.Contains(e.Payload, []byte("rm -rf")) {
			t.Errorf("followers get %.200s", e.Payload)
		}
	}
	if want := 2 * 2 * len(methods) * len(methods); dropped != want {
		t.Errorf("%d requests were dropped, want %d", dropped, want)
	}
	open, err := h.Log().Requests(within(t), eventlog.RequestFilter{Pending: true})
	if err != nil || len(open) != 2*len(methods) {
		t.Fatalf("%d questions wait, %v, want %d", len(open), err, 2*len(methods))
	}
	for _, q := range open {
		if !bytes.Contains(q.Params, []byte("Read README")) {
			t.Errorf("the question %.20s is %s", q.RPC, q.Params)
		}
	}
	if log := payloads(stream(t, h, session)); strings.Contains(log, "rm -rf") {
		t.Errorf("the session's log has %s", log)
	}
}

// writeLine has the scripted agent write a line.
func writeLine(t *testing.T, h *agents.Host, line string) {
	t.Helper()
	quoted, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	post(t, h, "srv", `{"id":9,"method":"raw","params":{"line":`+string(quoted)+`}}`)
}

// The host's own answers do not accumulate for an agent that reads nothing.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	const n = 8_000
	h := host(t, agents.Config{
		Permissions: agents.Policy{Mode: agents.Allow},
		Launch: shell(fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); `+
			`echo "{\"id\":$i,\"method\":\"session/request_permission\",\"params\":{}}"; done; echo "[end]"; exec sleep 1000`, n)),
	})
	post(t, h, "srv", `{"method":"hello"}`)
	follow(t, h, "srv", agents.Replay{}, "[end]")
	requests, err := h.Log().Requests(within(t), eventlog.RequestFilter{Pending: true})
	if err != nil || len(requests) != 1024 {
		t.Errorf("%d questions wait, %v", len(requests), err)
	}
}

// The server's log has each warning about an agent's messages once.
func TestWarningsOfMessages(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	h := host(t, agents.Config{
		Permissions: agents.Policy{Mode: agents.Allow}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Launch: shell(`for i in 1 2 3 4 5 6 7 8 9; do echo "{\"id\":\"a$i\",\"result\":{}}"; ` +
			`echo "{\"id\":$i,\"method\":\"session/request_permission\",\"params\":{\"options\":[{\"optionId\":\"no\",\"kind\":\"reject_once\"}]}}"; done; echo "[end]"; exec sleep 1000`),
	})
	post(t, h, "srv", `{"method":"hello"}`)
	follow(t, h, "srv", agents.Replay{}, "[end]")
	for _, warning := range []string{"agent answered a request", "the agent offers nothing"} {
		if n := strings.Count(log.String(), warning); n != 1 {
			t.Errorf("%d warnings that %s", n, warning)
		}
	}
}

// Policies and replies choose among the first 64 options of a question.
func TestManyOptions(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Permissions: agents.Policy{Mode: agents.Allow}})
	session := newSession(t, h, "srv")
	options := make([]string, 80)
	for i := range options {
		kind := agents.AllowAlways
		if i >= 64 {
			kind = agents.AllowOnce
		}
		options[i] = fmt.Sprintf(`{"optionId":"o%d","name":"n","kind":%q}`, i, kind)
	}
	writeLine(t, h, fmt.Sprintf(`{"id":"q","method":"session/request_permission","params":{"sessionId":"%s","options":[%s]}}`,
		session, strings.Join(options, ",")))
	open, err := h.Requests(within(t), session)
	if err != nil || len(open) != 1 || !bytes.Contains(open[0].Params, []byte(`"o79"`)) {
		t.Fatalf("the open questions %v, %v, want one with all options", open, err)
	}
	reply := func(r agents.Reply) error { return h.Answer(within(t), session, open[0].PublicID, r) }
	other, ok := errors.AsType[*agents.OptionError](reply(agents.Reply{Kinds: []string{agents.AllowOnce}}))
	if !ok || len(other.Offered) != 64 {
		t.Errorf("an option of a kind that does not count: %v", other)
	}
	if err := reply(agents.Reply{Option: "o64"}); err == nil {
		t.Error("an option that does not count is chosen")
	}
	if err := reply(agents.Reply{Option: "o63"}); err != nil {
		t.Error(err)
	}
}

// TestOptionsOfOneID: an option that has its id from another kind is not chosen by its kind.
func TestOptionsOfOneID(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Permissions: agents.Policy{Mode: agents.Allow}})
	session := newSession(t, h, "srv")
	late := strings.Repeat(`{"optionId":"n","name":"n","kind":"none"},`, agents.MaxOptions) + `{"optionId":"z","name":"n","kind":"allow_always"}`
	writeLine(t, h, fmt.Sprintf(`{"id":"q","method":"session/request_permission","params":{"sessionId":"%s","options":[`+
		`{"optionId":"x","name":"n","kind":"allow_once"},{"optionId":"x","name":"n","kind":"allow_always"},{"optionId":"z","name":"n","kind":"allow_once"},{"optionId":"y","name":"n","kind":"reject_once"},%s]}}`, session, late))
	open, err := h.Requests(within(t), session)
	if err != nil || len(open) != 1 {
		t.Fatalf("the policy answered: the open questions are %v, %v", open, err)
	}
	reply := func(kind string) error {
		return h.Answer(within(t), session, open[0].PublicID, agents.Reply{Kinds: []string{kind}})
	}
	if _, ok := errors.AsType[*agents.OptionError](reply(agents.AllowOnce)); !ok {
		t.Error("the id of two options is chosen")
	}
	if err := reply(agents.RejectOnce); err != nil {
		t.Error(err)
	}
}
