package opencode

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// machine has the routes that need no session: about folders, files, terminals and
// configuration.
type machine struct {
	*area
	terminals *terminals
}

// machineRoutes lists the routes that need no session.
func (a *area) machineRoutes() []route {
	m := &machine{area: a, terminals: &terminals{area: a, byID: map[string]*terminal{}}}
	return slices.Concat(
		m.serverRoutes(), m.providerRoutes(), a.settings.routes(), m.projectRoutes(), m.commandRoutes(),
		m.fileRoutes(), m.terminals.routes(), m.mcpRoutes(), m.tuiRoutes(), unservedRoutes(),
	)
}

// get returns a route that reads something. A call ends when its client disconnects.
func get(path string, handle func(*call) (any, error)) route {
	return route{http.MethodGet, path, func(c *call) (any, error) {
		var stop func()
		c.ctx, stop = rest.UntilGone(c.ctx, c.Fiber)
		defer stop()
		return handle(c)
	}}
}

// post returns a route that does something.
func post(path string, handle func(*call) (any, error)) route {
	return route{http.MethodPost, path, handle}
}

// constant returns a route whose answer is always the same.
func constant(path string, answer any) route {
	return get(path, func(*call) (any, error) { return answer, nil })
}

// at returns the path of a request as the file system has it: below the directory of the
// request, unless it is absolute.
func (c *call) at(path string) string { return below(c.directory, path) }

func below(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// required returns a query parameter, or a problem if it is missing.
func (c *call) required(name string) (string, error) {
	value := c.Query(name)
	if value == "" {
		return "", rest.InvalidField(name, "the query parameter "+name+" is missing")
	}
	return value, nil
}

// oneOf returns a problem unless a value is one of a list.
func oneOf(name, value string, list ...string) error {
	if slices.Contains(list, value) {
		return nil
	}
	return rest.InvalidField(name, fmt.Sprintf("%s must be one of %s, not %.100q", name, strings.Join(list, ", "), value))
}

// health is the answer of GET /global/health.
type health struct {
	Healthy bool   `json:"healthy"`
	Version string `json:"version"`
}

// logEntry is a line that a client wants to be in the server's log.
type logEntry struct {
	Service string         `json:"service"`
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Extra   map[string]any `json:"extra"`
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func (m *machine) serverRoutes() []route {
	return []route{
		constant("/global/health", health{true, m.Version}),
		post("/log", func(c *call) (any, error) {
			var e logEntry
			if err := c.ReadJSON(&e); err != nil {
				return nil, err
			}
			if err := oneOf("level", e.Level, "debug", "info", "warn", "error"); err != nil {
				return nil, err
			}
			m.Logger.Log(c.ctx, logLevels[e.Level], "message of a client", "service", e.Service, "message", e.Message, "extra", e.Extra)
			return true, nil
		}),
		post("/instance/dispose", func(c *call) (any, error) {
			if err := m.terminals.endAll(c.ctx, c.directory); err != nil {
				return nil, err
			}
			m.publish(c.directory, "server.instance.disposed", map[string]string{"directory": c.directory})
			return true, nil
		}),
	}
}
