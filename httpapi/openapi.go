package httpapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/acp"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// apiVersion is the version of the wire format, as in the document.
const apiVersion = "0.4.2"

// tags are the groups of operations, as documentation lists them.
func tags() []*huma.Tag {
	var all []*huma.Tag
	for _, t := range [][2]string{
		{"Server", "Health of the server, and its OpenAPI document"},
		{"Tokens", "Tokens with a scope and an expiry"},
		{"Secrets", "Values that clients use by name and cannot read"},
		{"Desktop lifecycle", "Desktops: start, stop, status"},
		{"Screenshots", "Screenshots of a desktop"},
		{"Mouse", "The pointer and its buttons"},
		{"Keyboard", "Keys and text"},
		{"Clipboard", "Both selections, text and images"},
		{"Windows", "Windows of a desktop"},
		{"Elements", "Elements of the programs on a desktop, such as buttons and menus"},
		{"Programs", "Programs that are launched on a desktop"},
		{"Browser", "A browser on a desktop, and its DevTools protocol"},
		{"Display", "The display and its size"},
		{"Events", "Events of a desktop as a stream"},
		{"Live view", "Watching a desktop, by WebRTC, WHEP or WebSocket"},
		{"Actions", "Lists of actions in one request, with an observation"},
		{"Control", "Control of a desktop among actors"},
		{"Recordings", "Recordings, their timelines, captions and clips"},
		{"Processes", "Programs without a desktop, their output, input and terminals"},
		{"Files", "Files and directories"},
		{"Configuration", "MCP servers and skills of a directory"},
		{"Agents", "Agents that can be installed, and desktops as their tools"},
		{"Agents (ACP)", "The Agent Client Protocol over HTTP"},
		{"Sessions", "Sessions of agents, their messages and events"},
		{"OpenComputer", "The API of OpenComputer"},
	} {
		all = append(all, &huma.Tag{Name: t[0], Description: t[1]})
	}
	return all
}

// serveDocument answers with the OpenAPI document.
func serveDocument(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/openapi+json;version=3.1")
	c.Response().SetBodyRaw(committedDocument)
	return nil
}

// restConfig returns the configuration of the layer below the routes.
func (c Config) restConfig(findToken func(string) *grants.Grant, observe func(method, route string, status int, took time.Duration)) rest.Config {
	return rest.Config{
		Title: "deskhand", Version: apiVersion, Tags: tags(),
		PathParams: map[string]*huma.Param{"desktop": {
			Name: "desktop", In: "path", Required: true, Description: "The desktop's id", Example: fleet.Main,
			Schema: &huma.Schema{Type: huma.TypeString, Pattern: fleet.IDPattern},
		}},
		Description: "Virtual Linux desktops that programs and agents can see and use. " +
			"Compatible with sandbox-agent " + apiVersion + ". Everything below /v1/desktop is also below " +
			"/v1/desktops/{desktop}, where the desktop called main is the one of /v1/desktop.",
		Token: c.Token, NoToken: c.NoToken, FindToken: findToken,
		Origins: c.Origins, Methods: c.Methods, Headers: c.Headers, Credentials: c.Credentials, TrustProxy: c.TrustProxy,
		MaxBodyBytes: int64(c.MaxBodyBytes), LargestBody: max(acp.MaxMessage, desktops.ClipboardFactor*int64(c.MaxBodyBytes)),
		MaxUploadBytes: c.MaxUploadBytes,
		MaxConnections: c.MaxConnections, MaxConnectionsPerAddress: c.MaxConnectionsPerAddress,
		Forward: c.ProxySessions, Quiet: c.Quiet, Observe: observe, Tracer: c.tracer(), SpanOf: spanOf, Logger: c.Logger, AccessLog: c.AccessLog,
	}
}
