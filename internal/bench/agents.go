package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const (
	speakers    = 10     // agents that send bursts concurrently
	burstSize   = 2000   // messages of each
	historyPage = 100    // events of a page
	burstMost   = 50_000 // messages of one prompt while a history is made
)

// agentRows returns the rows about agents, with a history of so many events.
func agentRows(events int) []row {
	const onlyNewest = "keeps 1024" // messages
	title := fmt.Sprintf("history of %d events: ", events)
	last := events - historyPage
	return []row{
		// The reference's log is memory.
		{key: "agent-prompt", title: "prompt and answer, median (p90)", factor: 1.0 / 3, often: true, prepare: openMock, call: hello},
		{key: "agent-prompt", title: "the same, database-sync normal", unsynced: true, often: true, prepare: openMock, call: hello},
		{
			key: "agent-events", title: fmt.Sprintf("%d concurrent agents, messages", speakers), messages: speakers * burstSize, rate: 10_000,
			rounds: true, prepare: openSpeakers, call: bursts,
		},
		{
			key: "agent-readers", title: fmt.Sprintf("%d readers, one stalled: prompt to echo, p99", audience), below: 50 * time.Millisecond,
			whole: true, once: true, call: readers,
		},
		{
			key: "agent-history", title: title + "the first page of " + fmt.Sprint(historyPage) + " at its end, in /v1/sessions", below: 500 * time.Millisecond,
			impossible: onlyNewest, once: true, prepare: makeHistory(events),
			call: func(ctx context.Context, b *bed) (time.Duration, error) { return b.sessions[0].olderPage(ctx, last) },
		},
		{
			key: "agent-history", title: fmt.Sprintf("%s%d of the stream, median (p90)", title, historyPage), below: 5 * time.Millisecond,
			impossible: onlyNewest,
			call: func(ctx context.Context, b *bed) (time.Duration, error) {
				return b.sessions[0].page(ctx, 1+b.place(last))
			},
		},
		{
			key: "agent-history", title: fmt.Sprintf("%spage of %d in /v1/sessions", title, historyPage), below: 5 * time.Millisecond,
			impossible: onlyNewest,
			call: func(ctx context.Context, b *bed) (time.Duration, error) {
				return b.sessions[0].olderPage(ctx, b.place(last))
			},
		},
	}
}

// place returns a place in a history that differs at every call, up to last.
func (b *bed) place(last int) int {
	b.turn++
	return b.turn * 7919 % last
}

// sessionAgent is the reference's name for deskhand's mock agent. The reference
// starts any program that has the name of an agent's adapter.
const sessionAgent = "pi"

// lendMock gives the reference deskhand's mock agent.
func (b *bed) lendMock(binary string) error {
	dir := filepath.Join(b.server.Home, ".local", "share", "sandbox-agent", "bin", "agent_processes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' mock-agent-process\n", binary)
	return os.WriteFile(filepath.Join(dir, sessionAgent+"-acp"), []byte(script), 0o700)
}

// openMock begins a session with the server's own mock agent.
func openMock(ctx context.Context, b *bed) error {
	if b.server.Reference() {
		if _, err := b.call(ctx, http.MethodPost, "/v1/agents/mock/install", map[string]any{}); err != nil {
			return err
		}
	}
	s, err := b.newSession(ctx, "mock")
	b.sessions = []*session{s}
	return err
}

func hello(ctx context.Context, b *bed) (time.Duration, error) {
	return b.sessions[0].prompt(ctx, "hello")
}

func openSpeakers(ctx context.Context, b *bed) error {
	b.sessions = nil
	for range speakers {
		s, err := b.ownSession(ctx)
		if err != nil {
			return err
		}
		b.sessions = append(b.sessions, s)
	}
	return nil
}

// bursts has several agents send messages concurrently, until all of them are in
// the log and answered.
func bursts(ctx context.Context, b *bed) (time.Duration, error) {
	return concurrently(speakers, func(n int) error {
		_, err := b.sessions[n].prompt(ctx, fmt.Sprint("burst ", burstSize))
		return err
	})
}

// makeHistory makes a long session.
func makeHistory(events int) func(context.Context, *bed) error {
	return func(ctx context.Context, b *bed) error {
		s, err := b.ownSession(ctx)
		if err != nil {
			return err
		}
		b.sessions = []*session{s}
		for left := events; left > 0; left -= burstMost {
			if _, err := s.prompt(ctx, fmt.Sprint("burst ", min(burstMost, left))); err != nil {
				return err
			}
		}
		return nil
	}
}

// olderPage reads a page through the API of sandbox-agent 0.1, which reads the log
// only as far as a caller asks, and returns how long that took.
func (s *session) olderPage(ctx context.Context, offset int) (time.Duration, error) {
	path := fmt.Sprintf("/v1/sessions/%s/events?limit=%d&offset=%d", url.PathEscape(s.id), historyPage, offset)
	took, err := s.bed.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, err
	}
	var page struct{ Events []json.RawMessage }
	if err := json.Unmarshal(s.bed.body.Bytes(), &page); err != nil {
		return 0, err
	}
	if len(page.Events) != historyPage {
		return 0, fmt.Errorf("a page of %d events, want %d", len(page.Events), historyPage)
	}
	return took, nil
}

// page reads a page of the stream and returns how long that took.
func (s *session) page(ctx context.Context, from int) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	body, err := s.bed.open(ctx, fmt.Sprint(s.path, "?from=", from))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	events := lines(body, 64<<10)
	for n := from; n < from+historyPage; {
		if !events.Scan() {
			return 0, cmp.Or(events.Err(), io.ErrUnexpectedEOF)
		}
		if id, ok := bytes.CutPrefix(events.Bytes(), []byte("id: ")); ok {
			if string(id) != fmt.Sprint(n) {
				return 0, fmt.Errorf("event %s, want %d", id, n)
			}
			n++
		}
	}
	return time.Since(begin), nil
}

// session is a session with an agent that has an ACP server of its own.
type session struct {
	bed      *bed
	path, id string
	calls    int
	answer   bytes.Buffer
}

// newSession begins a session. The reference's own mock agent gives it no id.
func (b *bed) newSession(ctx context.Context, agent string) (*session, error) {
	b.turn++
	s := &session{bed: b, path: fmt.Sprint("/v1/acp/bench-", b.turn)}
	init := map[string]any{"protocolVersion": 1, "clientInfo": map[string]any{"name": "bench", "version": "1"}}
	if _, err := s.request(ctx, "?agent="+agent, "initialize", init); err != nil {
		return nil, err
	}
	if _, err := s.request(ctx, "", "session/new", map[string]any{"cwd": b.server.Home, "mcpServers": []any{}}); err != nil {
		return nil, err
	}
	var made struct {
		Result struct {
			ID string `json:"sessionId"`
		}
	}
	err := json.Unmarshal(s.answer.Bytes(), &made)
	s.id = made.Result.ID
	return s, err
}

// ownSession begins a session with deskhand's mock agent.
func (b *bed) ownSession(ctx context.Context) (*session, error) {
	agent := "mock"
	if b.server.Reference() {
		agent = sessionAgent
	}
	s, err := b.newSession(ctx, agent)
	if err == nil && s.id == "" {
		err = errors.New("no session: " + s.answer.String())
	}
	return s, err
}

// request makes a request of the agent, and returns how long it took until its
// answer was read, into s.answer.
func (s *session) request(ctx context.Context, query, method string, params any) (time.Duration, error) {
	s.calls++
	body := map[string]any{"jsonrpc": "2.0", "id": s.calls, "method": method, "params": params}
	req, err := s.bed.server.Request(ctx, http.MethodPost, s.path+query, body)
	if err != nil {
		return 0, err
	}
	s.answer.Reset()
	return s.bed.timed(req, &s.answer)
}

// prompt sends a prompt to the agent and waits for the end of its turn.
func (s *session) prompt(ctx context.Context, text string) (time.Duration, error) {
	took, err := s.request(ctx, "", "session/prompt", map[string]any{"sessionId": s.id, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	if err == nil && !bytes.Contains(s.answer.Bytes(), []byte(`"end_turn"`)) && !bytes.Contains(s.answer.Bytes(), []byte(`"echoed"`)) {
		err = fmt.Errorf("%s: the prompt was answered with %s", s.bed.name, &s.answer)
	}
	return took, err
}
