package main

import (
	"bytes"
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

	"github.com/deskhand/deskhand/internal/sdktest"
)

// agentBeds are the servers whose agents are measured.
type agentBeds struct {
	full, normal *bed // deskhand, by what it syncs
	reference    *bed // nil: not measured
}

// all are those that there are.
func (a *agentBeds) all() []*bed {
	beds := []*bed{a.full, a.normal}
	if a.reference != nil {
		beds = append(beds, a.reference)
	}
	return beds
}

// measureAgents measures the rows about agents that were asked for.
func (b *bench) measureAgents(ctx context.Context) (err error) {
	measures := []struct {
		key, title string
		do         func(context.Context, *agentBeds) error
	}{
		{"agent-prompt", "prompts to an agent", b.prompts},
		{"agent-events", "agents that say much at once", b.bursts},
		{"agent-readers", "readers of what an agent says", b.readers},
		{"agent-history", "a long history of a session", b.history},
	}
	var beds *agentBeds
	defer func() {
		if beds != nil {
			for _, bed := range beds.all() {
				err = errors.Join(err, bed.Close())
			}
		}
	}()
	for _, m := range measures {
		if !b.rows.MatchString(m.key) {
			continue
		}
		if beds == nil {
			if beds, err = b.agentBeds(ctx); err != nil {
				return err
			}
			b.agents = &agentFigures{alone: b.alone}
		}
		b.tell("%s", m.title)
		if err := m.do(ctx, beds); err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
	}
	return nil
}

// sessionAgent is what the reference calls deskhand's mock agent. It starts
// whatever program has the name of an agent's adapter.
const sessionAgent = "pi"

func (b *bench) agentBeds(ctx context.Context) (_ *agentBeds, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a := &agentBeds{}
	defer func() {
		if err == nil {
			return
		}
		for _, bed := range a.all() {
			if bed != nil {
				err = errors.Join(err, bed.Close())
			}
		}
	}()
	start := func(to **bed, name string, cfg sdktest.Config) error {
		var err error
		*to, err = bareBed(ctx, name, b.dir, b.memory, cfg)
		return err
	}
	if err := start(&a.full, "deskhand-full", sdktest.Config{Binary: b.binary}); err != nil {
		return a, err
	}
	if err := start(&a.normal, "deskhand-normal", sdktest.Config{Binary: b.binary, Args: []string{"--database-sync", "normal"}}); err != nil {
		return a, err
	}
	if b.alone {
		return a, nil
	}
	modules, err := sdktest.Install(ctx)
	if err != nil {
		return a, err
	}
	binary, err := sdktest.ReferenceBinary(modules)
	if err != nil {
		return a, err
	}
	if err := start(&a.reference, "reference-agents", sdktest.Config{Binary: binary, Reference: true}); err != nil {
		return a, err
	}
	if _, err := a.reference.call(ctx, http.MethodPost, "/v1/agents/mock/install", map[string]any{}); err != nil {
		return a, err
	}
	return a, b.lendMock(a.reference)
}

// lendMock gives the reference deskhand's mock agent.
func (b *bench) lendMock(reference *bed) error {
	dir := filepath.Join(reference.server.Home, ".local", "share", "sandbox-agent", "bin", "agent_processes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' mock-agent-process\n", b.binary)
	return os.WriteFile(filepath.Join(dir, sessionAgent+"-acp"), []byte(script), 0o700)
}

// talk is a session with an agent that has an ACP server of its own.
type talk struct {
	bed      *bed
	path, id string
	calls    int
	answer   bytes.Buffer
}

// talkTo begins a session. That of the reference's own mock agent has no id.
func (b *bed) talkTo(ctx context.Context, server, agent string) (*talk, error) {
	t := &talk{bed: b, path: "/v1/acp/" + url.PathEscape(server)}
	init := map[string]any{"protocolVersion": 1, "clientInfo": map[string]any{"name": "bench", "version": "1"}}
	if _, err := t.ask(ctx, "?agent="+agent, "initialize", init); err != nil {
		return nil, err
	}
	if _, err := t.ask(ctx, "", "session/new", map[string]any{"cwd": b.server.Home, "mcpServers": []any{}}); err != nil {
		return nil, err
	}
	var made struct {
		Result struct {
			ID string `json:"sessionId"`
		}
	}
	err := json.Unmarshal(t.answer.Bytes(), &made)
	t.id = made.Result.ID
	return t, err
}

// own begins a session with deskhand's mock agent.
func (b *bed) own(ctx context.Context, server string) (*talk, error) {
	agent := "mock"
	if b.server.Reference() {
		agent = sessionAgent
	}
	t, err := b.talkTo(ctx, server, agent)
	if err == nil && t.id == "" {
		err = fmt.Errorf("%s: no session: %s", b.name, &t.answer)
	}
	return t, err
}

// ask makes a request of the agent, and returns how long it took until its
// answer was read, into t.answer.
func (t *talk) ask(ctx context.Context, query, method string, params any) (time.Duration, error) {
	t.calls++
	body := map[string]any{"jsonrpc": "2.0", "id": t.calls, "method": method, "params": params}
	req, err := t.bed.request(ctx, http.MethodPost, t.path+query, body)
	if err != nil {
		return 0, err
	}
	t.answer.Reset()
	begin := time.Now()
	err = do(t.bed.http, req, &t.answer)
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", t.bed.name, method, err)
	}
	return took, nil
}

// prompt says something to the agent and waits for the end of its turn.
func (t *talk) prompt(ctx context.Context, words string) (time.Duration, error) {
	took, err := t.ask(ctx, "", "session/prompt", map[string]any{"sessionId": t.id, "prompt": []any{map[string]any{"type": "text", "text": words}}})
	if err == nil && !bytes.Contains(t.answer.Bytes(), []byte(`"end_turn"`)) && !bytes.Contains(t.answer.Bytes(), []byte(`"echoed"`)) {
		err = fmt.Errorf("%s: the prompt was answered with %s", t.bed.name, &t.answer)
	}
	return took, err
}

// listen opens the stream of what the agent says, from the beginning that the
// query or the server chooses.
func (t *talk) listen(ctx context.Context, query string) (io.ReadCloser, error) {
	req, err := t.bed.request(ctx, http.MethodGet, t.path+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := t.bed.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("%s: follow an agent: %s", t.bed.name, res.Status)
	}
	return res.Body, nil
}
