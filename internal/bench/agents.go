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
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
)

const (
	speakers    = 10     // agents that send bursts concurrently
	burstSize   = 2000   // messages of each
	historyPage = 100    // events of a page
	burstMost   = 50_000 // messages of one prompt while a history is made
)

// Goals of agents.
const (
	promptShare = 3.0    // of the time of the reference, whose log is memory
	eventsGoal  = 10_000 // a second
	pageGoal    = 5 * time.Millisecond
	endGoal     = 500 * time.Millisecond
)

// agentBeds are the servers whose agents are measured: deskhand with
// --database-sync full and normal, and the reference unless it is left out.
type agentBeds []*bed

// measureAgents measures the rows about agents that were asked for.
func (b *bench) measureAgents(ctx context.Context) (err error) {
	rows := []struct {
		key     string
		measure func(context.Context, agentBeds) error
	}{{"agent-prompt", b.prompts}, {"agent-events", b.bursts}, {"agent-readers", b.readers}, {"agent-history", b.history}}
	var beds agentBeds
	defer func() {
		for _, bed := range beds {
			err = errors.Join(err, bed.Close())
		}
	}()
	for _, r := range rows {
		if !b.rows.MatchString(r.key) {
			continue
		}
		if beds == nil {
			if beds, err = b.startAgentBeds(ctx); err != nil {
				return err
			}
		}
		b.tell("%s", r.key)
		if err := r.measure(ctx, beds); err != nil {
			return fmt.Errorf("%s: %w", r.key, err)
		}
	}
	return nil
}

// startAgentBeds returns the servers that it has started, also with an error.
func (b *bench) startAgentBeds(ctx context.Context) (beds agentBeds, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	configs := []sdktest.Config{{Binary: b.binary}, {Binary: b.binary, Args: []string{"--database-sync", "normal"}}}
	if !b.alone {
		configs = append(configs, sdktest.Config{Binary: b.reference, Reference: true})
	}
	for k, cfg := range configs {
		bed, err := b.newBed(ctx, []string{"deskhand-full", "deskhand-normal", "reference-agents"}[k], cfg)
		if err != nil {
			return beds, err
		}
		beds = append(beds, bed)
	}
	if b.alone {
		return beds, nil
	}
	if _, err := beds[2].call(ctx, http.MethodPost, "/v1/agents/mock/install", map[string]any{}); err != nil {
		return beds, err
	}
	return beds, b.lendMock(beds[2])
}

// sessionAgent is the reference's name for deskhand's mock agent. The reference
// starts any program that has the name of an agent's adapter.
const sessionAgent = "pi"

// lendMock gives the reference deskhand's mock agent.
func (b *bench) lendMock(reference *bed) error {
	dir := filepath.Join(reference.server.Home, ".local", "share", "sandbox-agent", "bin", "agent_processes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' mock-agent-process\n", b.binary)
	return os.WriteFile(filepath.Join(dir, sessionAgent+"-acp"), []byte(script), 0o700)
}

// prompts measures a prompt and its answer, in each server in turn.
func (b *bench) prompts(ctx context.Context, beds agentBeds) error {
	var sessions []*session
	for _, bed := range beds {
		s, err := bed.newSession(ctx, "prompt", "mock")
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
	}
	var times [3]sample
	for n := -warmUp; n < oftenTimes*b.calls; n++ {
		for k, s := range sessions {
			took, err := s.prompt(ctx, "hello")
			if err != nil {
				return err
			}
			if n >= 0 {
				times[k] = append(times[k], took)
			}
		}
	}
	for _, s := range times {
		slices.Sort(s)
	}
	text := func(k int) string {
		if b.alone {
			return times[k].String()
		}
		return fmt.Sprintf("%v, %sx", times[k], benchkit.Significant(float64(times[k].median())/float64(times[2].median())))
	}
	goal := ""
	if !b.alone {
		goal = fmt.Sprintf("at most %gx", promptShare)
	}
	b.line(agentSessions, "prompt and answer, median (p90)", text(0), times[2].String(), goal, float64(times[0].median()) <= promptShare*float64(times[2].median()))
	b.line(agentSessions, "the same, database-sync normal", text(1), times[2].String(), "", true)
	return nil
}

// bursts measures how many messages a second several agents send concurrently,
// until all of them are in the log and answered.
func (b *bench) bursts(ctx context.Context, beds agentBeds) error {
	beds = slices.Delete(slices.Clone(beds), 1, 2)
	all := make([][]*session, len(beds))
	for k, bed := range beds {
		for n := range speakers {
			s, err := bed.ownSession(ctx, fmt.Sprint("burst-", n))
			if err != nil {
				return err
			}
			all[k] = append(all[k], s)
		}
	}
	var times [2]sample
	for range b.rounds {
		for k, sessions := range all {
			took, err := concurrently(speakers, func(n int) error {
				_, err := sessions[n].prompt(ctx, fmt.Sprint("burst ", burstSize))
				return err
			})
			if err != nil {
				return err
			}
			times[k] = append(times[k], took)
		}
	}
	rate := func(k int) float64 {
		slices.Sort(times[k])
		return speakers * burstSize / times[k].median().Seconds()
	}
	b.line(agentSessions, fmt.Sprintf("%d concurrent agents, messages", speakers), fmt.Sprintf("%.0f/s", rate(0)), fmt.Sprintf("%.0f/s", rate(1)),
		fmt.Sprintf("%d/s", eventsGoal), rate(0) >= eventsGoal)
	return nil
}

// history makes a long session and reads pages of it: of the stream, and of the
// API of sandbox-agent 0.1, which reads the log only as far as a caller asks.
func (b *bench) history(ctx context.Context, beds agentBeds) error {
	const none = "keeps 1024"
	s, err := beds[0].ownSession(ctx, "history")
	if err != nil {
		return err
	}
	for sent := 0; sent < b.events; {
		n := min(burstMost, b.events-sent)
		if _, err := s.prompt(ctx, fmt.Sprint("burst ", n)); err != nil {
			return err
		}
		sent += n
	}
	last := b.events - historyPage
	atEnd, err := s.olderPage(ctx, last)
	if err != nil {
		return err
	}
	var stream, older sample
	for n := range b.calls {
		from := n * last / b.calls
		took, err := s.page(ctx, 1+from)
		if err != nil {
			return err
		}
		stream = append(stream, took)
		if took, err = s.olderPage(ctx, from); err != nil {
			return err
		}
		older = append(older, took)
	}
	line := func(what, found string, goal time.Duration, met bool) {
		b.line(agentSessions, fmt.Sprintf("history of %d events: %s", b.events, what), found, none, "below "+benchkit.Milliseconds(goal), met)
	}
	slices.Sort(stream)
	slices.Sort(older)
	line(fmt.Sprintf("%d of the stream, median (p90)", historyPage), stream.String(), pageGoal, stream.median() < pageGoal)
	line(fmt.Sprintf("page of %d in /v1/sessions", historyPage), older.String(), pageGoal, older.median() < pageGoal)
	line("the first such page at its end", benchkit.Milliseconds(atEnd), endGoal, atEnd < endGoal)
	return nil
}

// olderPage reads a page through the API of sandbox-agent 0.1 and returns how
// long that took.
func (s *session) olderPage(ctx context.Context, offset int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
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
func (b *bed) newSession(ctx context.Context, server, agent string) (*session, error) {
	s := &session{bed: b, path: "/v1/acp/" + url.PathEscape(server)}
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
func (b *bed) ownSession(ctx context.Context, server string) (*session, error) {
	agent := "mock"
	if b.server.Reference() {
		agent = sessionAgent
	}
	s, err := b.newSession(ctx, server, agent)
	if err == nil && s.id == "" {
		err = fmt.Errorf("%s: no session: %s", b.name, &s.answer)
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
