package opencomputer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// prefix is where the SDK of OpenComputer finds the routes: it adds /api to the URL that it has.
const prefix = "/opencomputer/api"

// sandboxStream is the stream with the records of all sandboxes. The newest record counts.
const sandboxStream = "opencomputer"

// sandbox is a directory of this machine, with the programs and sessions that were started for
// it. It is not isolated from the rest of the machine.
type sandbox struct {
	ID       string            `json:"id"`
	Dir      string            `json:"dir"`
	Envs     map[string]string `json:"envs,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  time.Time         `json:"created"`
	Killed   bool              `json:"killed,omitempty"`
}

// sandboxInfo describes a sandbox.
type sandboxInfo struct {
	ID        string            `json:"sandboxID"`
	Status    string            `json:"status"`
	Template  string            `json:"templateID"`
	Metadata  map[string]string `json:"metadata"`
	StartedAt string            `json:"startedAt"`
	Dir       string            `json:"directory"`
}

func (s sandbox) info() sandboxInfo {
	metadata := s.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return sandboxInfo{s.ID, "running", baseTemplate, metadata, s.Created.UTC().Format(time.RFC3339Nano), s.Dir}
}

// at returns a path of a client: a relative one is below the sandbox's directory.
func (s sandbox) at(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.Dir, path)
}

// sandboxes has the routes of sandboxes.
type sandboxes struct {
	*area

	mu         sync.Mutex // guards what follows
	read       int64      // the last record that all has
	all        map[string]sandbox
	executions map[string]*execution // by the id of the process
}

// call is a request to a route of a sandbox.
type call struct {
	*rest.Request
	ctx context.Context //nolint:containedctx // of the request
	sandbox
}

// add adds a route. handle returns the value of the answer, nil for an empty answer, or a function that answers.
func (b *sandboxes) add(method, path string, handle func(*call) (any, error)) {
	b.addForKilled(method, path, func(c *call) (any, error) {
		if c.Killed {
			return nil, rest.Missing("sandbox", c.ID)
		}
		return handle(c)
	})
}

// addForKilled adds a route that sandboxes have after they were killed, too.
func (b *sandboxes) addForKilled(method, path string, handle func(*call) (any, error)) {
	name := "opencomputer " + method + " " + path
	about := rest.Route{ID: name, Method: method, Path: prefix + path, Tag: "OpenComputer", APIKey: true, Query: true}
	b.Plain(about, func(in *rest.Request) {
		c := &call{Request: in, ctx: in.Context()}
		var err error
		if id := in.Param("sandboxId"); id != "" {
			var ok bool
			c.sandbox, ok, err = b.find(c.ctx, id)
			if err == nil && !ok {
				err = rest.Missing("sandbox", id)
			}
		}
		var out any
		if err == nil {
			out, err = handle(c)
		}
		if answer, ok := out.(func()); ok && err == nil {
			answer()
			return
		}
		if err == nil {
			err = in.SendJSON(out)
		}
		if err != nil {
			b.Write(in.Fiber, b.Fail(c.ctx, rest.Route{ID: name}, agenthost.Names{}.Explain(err)))
		}
	})
}

// register adds the routes.
func (b *sandboxes) register() {
	const one = "/sandboxes/{sandboxId}"
	b.add(http.MethodPost, "/sandboxes", b.create)
	b.add(http.MethodGet, "/sandboxes", func(c *call) (any, error) { return b.list(c.ctx) })
	b.add(http.MethodGet, one, func(c *call) (any, error) { return c.info(), nil })
	b.addForKilled(http.MethodDelete, one, b.kill)
	b.registerExecutions(one)
	b.registerFiles(one)
	b.registerUnserved(one)
}

// load reads the records that are new. The caller holds mu.
func (b *sandboxes) load(ctx context.Context) (*eventlog.Log, error) {
	host, err := b.host.Get(ctx)
	if err != nil {
		return nil, err
	}
	for {
		entries, err := host.Log().Read(ctx, sandboxStream, b.read, 0)
		if err != nil || len(entries) == 0 {
			return host.Log(), err
		}
		for _, e := range entries {
			var one sandbox
			if json.Unmarshal(e.Payload, &one) == nil {
				b.all[one.ID] = one
			}
			b.read = e.Seq
		}
	}
}

// find returns a sandbox, which may have been killed. ok is false if there is none.
func (b *sandboxes) find(ctx context.Context, id string) (one sandbox, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.load(ctx); err != nil {
		return sandbox{}, false, err
	}
	one, ok = b.all[id]
	return one, ok, nil
}

func (b *sandboxes) list(ctx context.Context) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.load(ctx); err != nil {
		return nil, err
	}
	all := []sandboxInfo{}
	for _, id := range slices.Sorted(maps.Keys(b.all)) {
		if !b.all[id].Killed {
			all = append(all, b.all[id].info())
		}
	}
	return all, nil
}

// save records a sandbox.
func (b *sandboxes) save(ctx context.Context, s sandbox) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.load(ctx)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return log.Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: sandboxStream, Dir: eventlog.Client, Kind: "sandbox", Payload: payload})
		return err
	})
}

// baseTemplate is the one template.
const baseTemplate = "base"

// unsupportedOptions are the options of new sandboxes that deskhand does not have.
var unsupportedOptions = []string{
	"burst", "sandboxFamily", "cpuCount", "memoryMB", "diskMB", "secretStore", "image", "snapshot", "webhooks", "previewAuth",
}

// create makes a sandbox.
func (b *sandboxes) create(c *call) (any, error) {
	var options map[string]json.RawMessage
	var body struct {
		Template string            `json:"templateID"`
		Timeout  int               `json:"timeout"`
		Envs     map[string]string `json:"envs"`
		Metadata map[string]string `json:"metadata"`
	}
	var raw json.RawMessage
	if err := c.ReadJSON(&raw); err != nil {
		return nil, err
	}
	if err := errors.Join(json.Unmarshal(raw, &options), json.Unmarshal(raw, &body)); err != nil {
		return nil, rest.InvalidRequest.Problem("invalid request: " + err.Error())
	}
	for _, name := range unsupportedOptions {
		if _, there := options[name]; there {
			return nil, notImplemented("the option " + name + " is not supported: a sandbox is a directory of the server's machine")
		}
	}
	switch {
	case body.Template != "" && body.Template != baseTemplate:
		return nil, notImplemented("templateID must be base: a sandbox is a directory; POST /v1/desktops/{id}/start starts a desktop")
	case body.Timeout != 0:
		return nil, notImplemented("timeout must be 0: sandboxes do not hibernate")
	}
	s := sandbox{ID: "sb_" + strings.ToLower(rand.Text()[:16]), Envs: body.Envs, Metadata: body.Metadata, Created: time.Now()}
	s.Dir = filepath.Join(b.files.Home(), "sandboxes", s.ID)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := b.save(c.ctx, s); err != nil {
		return nil, errors.Join(err, os.Remove(s.Dir))
	}
	c.SetStatus(http.StatusCreated)
	return s.info(), nil
}

// kill ends the programs and sessions of a sandbox, and removes its directory. It continues a removal
// that has failed: the directory of a killed sandbox is still there then.
func (b *sandboxes) kill(c *call) (any, error) {
	if c.Killed {
		if _, err := os.Lstat(c.Dir); errors.Is(err, os.ErrNotExist) {
			return nil, rest.Missing("sandbox", c.ID)
		}
	} else {
		killed := c.sandbox
		killed.Killed = true
		if err := b.save(c.ctx, killed); err != nil {
			return nil, err
		}
	}
	for _, x := range b.executionsOf(c.ID) {
		x.Kill(c.ctx, killPatience)
	}
	list, err := b.area.list(c.ctx, &ocSandbox{Sandbox: c.ID})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Body {
		host, err := b.host.Get(c.ctx)
		if err == nil {
			err = host.Terminate(c.ctx, s.ID)
		}
		if err != nil && !errors.Is(err, agents.ErrSessionNotFound) {
			return nil, err
		}
	}
	return nil, b.files.Remove(c.ctx, c.Dir, true)
}

func notImplemented(detail string) *rest.Problem {
	return rest.Kind{Code: "not_implemented", Title: "Not Implemented", Status: http.StatusNotImplemented}.Problem(detail)
}

// registerUnserved adds the routes that answer 501.
func (b *sandboxes) registerUnserved(one string) {
	const machine = "a sandbox is a directory of the server's machine, which is not paused, copied or resized"
	for _, r := range []struct{ method, path, reason string }{
		{http.MethodPost, one + "/hibernate", machine}, {http.MethodPost, one + "/wake", machine}, {http.MethodPost, one + "/reboot", machine},
		{http.MethodPost, one + "/power-cycle", machine}, {http.MethodPost, one + "/scale", machine},
		{http.MethodGet, one + "/autoscale", machine}, {http.MethodPut, one + "/autoscale", machine},
		{http.MethodGet, one + "/scaling-lock", machine}, {http.MethodPut, one + "/scaling-lock", machine},
		{http.MethodPost, one + "/timeout", machine}, {http.MethodPost, one + "/checkpoints", machine}, {http.MethodGet, one + "/checkpoints", machine},
		{http.MethodPost, one + "/checkpoints/{id}/restore", machine}, {http.MethodDelete, one + "/checkpoints/{id}", machine},
		{http.MethodPost, "/sandboxes/from-checkpoint/{id}", machine},
		{http.MethodGet, one + "/allowed-hosts", "the server does not filter connections"},
		{http.MethodPost, one + "/files/download-url", "GET /v1/fs/file with a token downloads a file"},
		{http.MethodPost, one + "/files/upload-url", "PUT /v1/fs/file with a token uploads a file"},
		{http.MethodPost, one + "/preview", "the server publishes no ports"}, {http.MethodGet, one + "/preview", "the server publishes no ports"},
		{http.MethodPost, one + "/preview/rotate", "the server publishes no ports"}, {http.MethodDelete, one + "/preview/{port}", "the server publishes no ports"},
		{http.MethodPost, one + "/mounts", "the server mounts nothing"}, {http.MethodGet, one + "/mounts", "the server mounts nothing"},
	} {
		b.add(r.method, r.path, func(*call) (any, error) {
			return nil, notImplemented(r.method + " " + r.path + " is not supported: " + r.reason)
		})
	}
}
