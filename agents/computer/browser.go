package computer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
)

// browserActions are the actions of the tool browser.
var browserActions = []string{
	"navigate", "outline", "click", "fill", "select", "press", "text", "wait", "back", "forward", "reload", "tabs", "newTab", "activate",
	"closeTab", "evaluate", "upload", "dialog", "console", "network",
}

// browserTool is offered with Config.Browser.
var browserTool = tool{
	name: "browser", title: "Use the web browser", required: []string{"action"},
	own: object{
		"action":     object{"type": "string", "enum": browserActions},
		"ref":        text("An element of the outline, such as @e12"),
		"selector":   text("Instead of ref: a CSS selector"),
		"url":        text("For navigate and newTab. For wait: a part of the URL"),
		"text":       text("For fill: the new content. For wait: text of the page. For dialog: the answer to a prompt"),
		"secret":     text("For fill, instead of text: the name of a secret, such as a password, whose value the server fills in"),
		"values":     object{"type": "array", "items": object{"type": "string"}, "description": "For select: values or labels of options"},
		"keys":       text(`For press: a key or chord, such as "Return"`),
		"expression": text("For evaluate: JavaScript"),
		"files":      object{"type": "array", "items": object{"type": "string"}, "description": "For upload: paths in the home directory"},
		"tab":        text("Id of a tab, from tabs; the active tab when left out"),
		"until":      object{"type": "string", "enum": []string{"none", "commit", "domcontentloaded", "load", "networkidle"}, "description": "For navigate and wait"},
		"accept":     object{"type": "boolean", "description": "For dialog: OK, or Cancel when left out"},
		"all":        object{"type": "boolean", "description": "For outline: also elements outside of the window"},
		"limit":      object{"type": "integer", "minimum": 1, "description": "For outline and text: the size of the answer"},
		"count":      object{"type": "integer", "minimum": 1, "maximum": 3, "description": "For click: 2 for a double click"},
		"gone":       object{"type": "boolean", "description": "For wait: until it is not there any more"},
		"timeoutMs":  object{"type": "integer", "minimum": 1},
	},
	description: "Uses a web browser on the desktop, which it starts if none runs. outline lists what is on the page, with references; " +
		"click, fill, select and upload take a reference. What this tool does is visible on the screen.",
}

// browse calls the tool browser.
func (s *Server) browse(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, stop := withRequest(desktop.WithActor(ctx, s.actor(ctx, req)))
	defer stop()
	answer, err := s.browserAnswer(ctx, req.Params.Arguments)
	if err == nil && len(answer) > maxText {
		err = badf("the action was done, but its answer has %d bytes, and %d are allowed: ask for a part of it", len(answer), maxText)
	}
	if err != nil {
		s.logFailure(ctx, browserTool.name, err)
		return failed(err), nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil
}

func (s *seat) browserAnswer(ctx context.Context, arguments []byte) (string, error) {
	var args map[string]json.RawMessage
	var action string
	if err := json.Unmarshal(arguments, &args); err != nil {
		return "", errors.New("the arguments must be an object")
	}
	if json.Unmarshal(args["action"], &action) != nil || !slices.Contains(browserActions, action) {
		return "", badf("action: must be one of %v", browserActions)
	}
	delete(args, "action")
	rest, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	result, err := s.cfg.Browser(ctx, action, rest)
	if err != nil {
		return "", err
	}
	var outline struct{ Outline string }
	if json.Unmarshal(result, &outline) == nil && outline.Outline != "" {
		return outline.Outline, nil
	}
	if len(result) == 0 {
		return "Done.", nil
	}
	return string(bytes.TrimSpace(result)), nil
}
