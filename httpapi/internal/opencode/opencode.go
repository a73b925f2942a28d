package opencode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
	"github.com/deskhand/deskhand/process"
)

// prefix is where the routes are.
const prefix = "/opencode"

// Config configures the routes.
type Config struct {
	Host     *agenthost.Host
	Registry *registry.Registry
	Files    *filesystem.FS
	Folders  *folders.Store

	// Processes returns the manager of the processes that clients start.
	Processes func() (*process.Manager, error)

	// AgentUser is the user of agents, as which git runs. Empty: the server's user.
	AgentUser string

	// SettingsDir returns the directory for the settings of projects. It need not exist unless
	// write is set.
	SettingsDir func(write bool) (string, error)

	// Problem returns the problem for an error of the packages behind these, or nil.
	Problem func(error) *rest.Problem

	Version string // of the server
	Logger  *slog.Logger
}

// area is the area of OpenCode.
type area struct {
	rest.Group
	Config
	hub         *hub
	records     records
	transcripts transcripts
	settings    *settings
	waiting     waiting
}

// Register adds the routes. The OpenAPI document leaves them out.
func Register(api *rest.API, cfg Config) {
	a := &area{Group: rest.Group{API: api, Problem: cfg.Problem}, Config: cfg, settings: &settings{dir: cfg.SettingsDir}}
	a.hub = newHub(a)
	api.Router().Use(prefix, a.translateErrors)
	for _, r := range a.routes() {
		a.add(r)
	}
}

// route is a route below the prefix. handle returns the value of the answer, nil for an empty
// answer, or a *rest.EventsOutput.
type route struct {
	method, path string
	handle       func(*call) (any, error)
}

// add adds a route.
func (a *area) add(r route) {
	name := "opencode " + r.method + " " + r.path
	about := rest.Route{ID: name, Method: r.method, Path: prefix + r.path, Tag: "OpenCode", Basic: true}
	a.Plain(about, func(in *rest.Request) {
		ctx := in.Context()
		c := &call{Request: in, ctx: ctx}
		err := c.findDirectory(a.Host.Folder)
		var out any
		if err == nil {
			out, err = r.handle(c)
		}
		if err == nil {
			if events, ok := out.(*rest.EventsOutput); ok {
				in.SendEvents(events)
				return
			}
			if upgrade, ok := out.(func()); ok {
				upgrade()
				return
			}
			err = in.SendJSON(out)
		}
		if err != nil {
			about := agenthost.Names{Session: c.Param("sessionID"), Request: cmp.Or(c.Param("requestID"), c.Param("permissionID"))}
			a.Write(in.Fiber, a.Refuse(c.ctx, rest.Route{ID: name}, about.Explain(err)))
		}
	})
}

// call is a request to a route.
type call struct {
	*rest.Request
	ctx context.Context //nolint:containedctx // of the request

	// directory is the project's directory: an absolute, clean path. named reports whether
	// the client named it; otherwise it is the folder of sessions that name none.
	directory string
	named     bool
}

// findDirectory reads the directory of a request. folder returns the one of requests that name none.
func (c *call) findDirectory(folder func() (string, error)) error {
	name := c.Query("directory")
	if name == "" {
		// Clients encode the header, because it may have any character.
		header := c.Header("X-Opencode-Directory")
		if name = header; strings.Contains(header, "%") {
			if decoded, err := url.PathUnescape(header); err == nil {
				name = decoded
			}
		}
	}
	c.named = name != ""
	if !c.named {
		var err error
		c.directory, err = folder()
		return err
	}
	if !filepath.IsAbs(name) {
		return rest.InvalidField("directory", fmt.Sprintf("directory must be an absolute path, not %.200q", name))
	}
	c.directory = filepath.Clean(name)
	return nil
}

// unsupported returns a route that answers 501 with the reason.
func unsupported(method, path, reason string) route {
	p := rest.Kind{Code: "not_implemented", Title: "Not Implemented", Status: http.StatusNotImplemented}.
		Problem(method + " " + path + " is not supported: " + reason)
	return route{method, path, func(*call) (any, error) { return nil, p }}
}

// errorBody is an error as OpenCode's clients read it.
type errorBody struct {
	Name string    `json:"name"`
	Data errorData `json:"data"`
}

type errorData struct {
	Message string `json:"message"`
}

// errorName returns the name of the errors with a status.
func errorName(status int) string {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "BadRequest"
	case http.StatusUnauthorized:
		return "UnauthorizedError"
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusConflict:
		return "ConflictError"
	case http.StatusNotImplemented:
		return "NotImplementedError"
	}
	return "UnknownError"
}

// translateErrors replaces problems by errors in OpenCode's form.
func (a *area) translateErrors(c *fiber.Ctx) error {
	if err := c.Next(); err != nil {
		if err := c.App().ErrorHandler(c, err); err != nil {
			return err
		}
	}
	response := c.Response()
	if string(response.Header.ContentType()) != rest.ProblemType {
		return nil
	}
	var p struct{ Detail string }
	if err := rest.DecodeJSON(response.Body(), &p); err != nil {
		return errors.New("an error could not be translated: " + err.Error())
	}
	text, err := plainjson.Marshal(errorBody{errorName(response.StatusCode()), errorData{p.Detail}})
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	response.SetBodyRaw(text)
	return nil
}
