package mockagent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// empty is the result of requests without one.
var empty = struct{}{}

// sessionParams are the parameters of all methods together.
type sessionParams struct {
	SessionID  string          `json:"sessionId"`
	Cwd        string          `json:"cwd"`
	MCPServers []mcpServer     `json:"mcpServers"`
	ModeID     string          `json:"modeId"`
	ModelID    string          `json:"modelId"`
	ConfigID   string          `json:"configId"`
	Value      json.RawMessage `json:"value"`
	Prompt     []block         `json:"prompt"`
	Cursor     string          `json:"cursor"`
	RequestID  json.RawMessage `json:"requestId"` // of $/cancel_request
	Meta       json.RawMessage `json:"_meta"`
}

// receive handles one message. Turns continue in goroutines.
func (a *agent) receive(ctx context.Context, message []byte) {
	var e envelope
	if err := json.Unmarshal(message, &e); err != nil {
		if json.Valid(message) {
			a.out.fail(nil, rpcErrorf(codeInvalidRequest, "the message must be a JSON-RPC object: %v", err))
		} else {
			a.out.fail(nil, rpcErrorf(codeParse, "the message is not JSON: %v", err))
		}
		return
	}
	if e.Method == nil {
		if e.ID == nil || !a.answered(e.ID, message) {
			a.echo(e, message)
		}
		return
	}
	method, ok := methods[*e.Method]
	if !ok || method.notification != (e.ID == nil) {
		a.echo(e, message)
		return
	}
	var p sessionParams
	if e.Params != nil {
		if err := json.Unmarshal(e.Params, &p); err != nil {
			a.refuse(e.ID, rpcErrorf(codeInvalidParams, "the parameters of %s are not what the protocol says: %v", *e.Method, err))
			return
		}
	}
	result, err := method.do(a, ctx, e.ID, &p)
	if err != nil {
		a.refuse(e.ID, err)
	} else if result != nil {
		a.out.answer(e.ID, result)
	}
}

// refuse answers a request with an error. It only logs the error of a notification.
func (a *agent) refuse(id json.RawMessage, err error) {
	if id == nil {
		a.cfg.Logger.Debug("mock agent: refused a notification", "error", err)
		return
	}
	failure, ok := errors.AsType[*rpcError](err)
	if !ok {
		failure = rpcErrorf(codeInternal, "%v", err)
	}
	a.out.fail(id, failure)
}

// echo does what the mock agent of sandbox-agent 0.4.2 does with every message.
func (a *agent) echo(e envelope, message json.RawMessage) {
	a.out.put(notification{"2.0", "mock/echo", map[string]any{"message": message}})
	if e.ID != nil && e.Method != nil {
		a.out.answer(e.ID, map[string]any{"echoed": message})
	}
	a.out.flush()
}

// method is a method of ACP. If its result is nil, the answer comes later.
type method struct {
	notification bool
	do           func(a *agent, ctx context.Context, id json.RawMessage, p *sessionParams) (any, error)
}

var methods = map[string]method{
	"initialize":                {do: (*agent).initialize},
	"authenticate":              {do: (*agent).acknowledge},
	"logout":                    {do: (*agent).acknowledge},
	"session/new":               {do: (*agent).newSession},
	"session/load":              {do: (*agent).loadSession},
	"session/resume":            {do: (*agent).resumeSession},
	"session/list":              {do: (*agent).listSessions},
	"session/close":             {do: (*agent).closeSession},
	"session/delete":            {do: (*agent).deleteSession},
	"session/prompt":            {do: (*agent).prompt},
	"session/set_mode":          {do: (*agent).setMode},
	"session/set_model":         {do: (*agent).setModel},
	"session/set_config_option": {do: (*agent).setConfigOption},
	"session/cancel":            {do: (*agent).cancelSession, notification: true},
	"$/cancel_request":          {do: (*agent).cancelRequest, notification: true},
}

func (a *agent) initialize(context.Context, json.RawMessage, *sessionParams) (any, error) {
	sessions := map[string]any{"close": empty, "delete": empty, "list": empty}
	if a.cfg.Dir != "" {
		sessions["resume"] = empty
	}
	return map[string]any{
		"protocolVersion": 1,
		"agentInfo":       map[string]any{"name": "mock", "title": "Mock agent", "version": a.cfg.Version},
		"agentCapabilities": map[string]any{
			"loadSession":         a.cfg.Dir != "",
			"mcpCapabilities":     map[string]bool{"http": true, "sse": false},
			"promptCapabilities":  map[string]bool{"image": true, "audio": false, "embeddedContext": true},
			"sessionCapabilities": sessions,
		},
		"authMethods": []any{},
	}, nil
}

func (a *agent) acknowledge(context.Context, json.RawMessage, *sessionParams) (any, error) {
	return empty, nil
}

// checkSession checks the parameters that begin or continue a session.
func checkSession(p *sessionParams) error {
	if !filepath.IsAbs(p.Cwd) {
		return rpcErrorf(codeInvalidParams, "cwd is %q and must be an absolute path", p.Cwd)
	}
	for _, s := range p.MCPServers {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) newSession(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	if err := checkSession(p); err != nil {
		return nil, err
	}
	s := startSession(p, a.cfg.Env)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.add(s); err != nil {
		return nil, err
	}
	if err := a.save(s); err != nil {
		delete(a.sessions, s.ID)
		return nil, err
	}
	return s.describe(s.ID), nil
}

// add adds an open session. The caller holds a.mu.
func (a *agent) add(s *session) error {
	if len(a.sessions) >= maxSessions {
		return rpcErrorf(codeInvalidRequest, "%d sessions are open; close one first", maxSessions)
	}
	a.sessions[s.ID] = s
	return nil
}

func (a *agent) find(id string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.sessions[id]
	if !ok {
		return nil, rpcErrorf(codeNotFound, "there is no session %q; begin one with session/new or continue one with session/load", id)
	}
	return s, nil
}

// reopen opens a session that has a file.
func (a *agent) reopen(p *sessionParams) (*session, error) {
	if err := checkSession(p); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s, open := a.sessions[p.SessionID]
	if !open {
		var err error
		if s, err = a.restore(p.SessionID); err != nil {
			return nil, err
		}
		if err := a.add(s); err != nil {
			return nil, err
		}
	}
	s.Cwd = p.Cwd
	s.tools.set(p.MCPServers)
	return s, nil
}

// loadSession repeats the history, then answers.
func (a *agent) loadSession(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	s, err := a.reopen(p)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	s.endText()
	history, about := slices.Clone(s.history), s.describe("")
	a.mu.Unlock()
	for _, u := range history {
		a.out.put(notification{"2.0", "session/update", sessionUpdate{s.ID, u}})
	}
	return about, nil
}

func (a *agent) resumeSession(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	s, err := a.reopen(p)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.describe(""), nil
}

// listSessions lists a page of the sessions that are open or kept.
func (a *agent) listSessions(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	const page = 100
	a.mu.Lock()
	defer a.mu.Unlock()
	files, err := a.files()
	if err != nil {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(a.sessions))
	for _, f := range files {
		if id, complete := strings.CutSuffix(f.Name(), fileType); complete {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	list := []any{}
	next := ""
	for i, id := range ids {
		if id <= p.Cursor {
			continue
		}
		s, ok := a.sessions[id]
		if !ok {
			if s, err = a.restore(id); err != nil {
				continue // deleted meanwhile, or not a session's file
			}
		}
		if p.Cwd != "" && s.Cwd != p.Cwd {
			continue
		}
		list = append(list, map[string]any{
			"sessionId": s.ID, "cwd": s.Cwd, "title": s.Title, "updatedAt": s.Updated.UTC().Format(time.RFC3339Nano),
		})
		if len(list) == page && i < len(ids)-1 {
			next = id
			break
		}
	}
	result := map[string]any{"sessions": list}
	if next != "" {
		result["nextCursor"] = next
	}
	return result, nil
}

// closeSession ends a session's turns. Its file stays.
func (a *agent) closeSession(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	s, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	a.cancelTurns(s)
	a.mu.Lock()
	delete(a.sessions, s.ID)
	a.mu.Unlock()
	s.tools.close()
	return empty, nil
}

// deleteSession also removes the file, if there is one.
func (a *agent) deleteSession(ctx context.Context, id json.RawMessage, p *sessionParams) (any, error) {
	if s, err := a.find(p.SessionID); err == nil {
		a.mu.Lock()
		s.deleted = true
		a.mu.Unlock()
		if _, err := a.closeSession(ctx, id, p); err != nil {
			return nil, err
		}
	}
	a.mu.Lock() // a turn may be saving it
	defer a.mu.Unlock()
	return empty, a.discard(p.SessionID)
}
