package desktops

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

const aboutToolCall = `The body is the tool call as the model made it, and the answer the tool result for the next request to the
model. Coordinates are in pixels of this server's screenshots. An action that fails is answered in the provider's form, with status 200.

* anthropic: a tool_use block, answered with a tool_result block. An object with only the block's input (and name, for a member of a
toolset) is answered with content and isError.
* openai: a computer_call item, answered with a computer_call_output item. Its status is incomplete if an action failed; the header
Deskhand-Problem says why. Safety checks in pending_safety_checks must also be in acknowledged_safety_checks before anything is done.
* gemini: a functionCall, answered with a functionResponse; or a function_call of the Interactions API, answered with a
function_result. An action whose safety_decision requires confirmation needs "safety_acknowledgement": true.`

const aboutTool = `An element of tools in a request to the provider. Versions: 20241022, 20250124, 20251124 (default) and 20260801 of
anthropic; computer (default) and computer_use_preview of openai; desktop (default), browser and interactions of gemini.`

type toolInput struct {
	Desktop  string `path:"desktop" default:"main"`
	Provider string `path:"provider" enum:"anthropic,openai,gemini"`
	Version  string `query:"version" doc:"The provider's version of the tool" example:"20251124"`
}

type toolCallInput struct {
	Desktop  string `path:"desktop" default:"main"`
	Provider string `path:"provider" enum:"anthropic,openai,gemini"`
	RawBody  []byte
}

type toolResult struct {
	Problem string `header:"Deskhand-Problem" doc:"Why an OpenAI item is incomplete"`
	Body    any
}

func registerAdapters(a *Area) {
	free := func(description string) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{
			Type: huma.TypeObject, Description: description, AdditionalProperties: true,
		}}}
	}
	r := rest.Route{Tag: "Agents", Other: inputFailed, Scope: grants.ScopeAgent, Most: mostMCP}
	define := r.Get("getComputerTool", "/computer/{provider}", "Get the definition of a provider's computer tool").WithAbout(aboutTool)
	define.Content = free("The definition")
	act(a, define, func(_ context.Context, in *toolInput) (*rest.Output[map[string]any], error) {
		server, err := toolServer(a, in.Desktop)
		if err != nil {
			return nil, err
		}
		tool, err := server.Tool(computer.Provider(in.Provider), in.Version)
		return rest.Reply(tool, toolProblem(err))
	})
	call := r.Post("callComputerTool", "/computer/{provider}", "Execute a call of a provider's computer tool").WithAbout(aboutToolCall)
	call.Body = &huma.RequestBody{Required: true, Content: free("The tool call")}
	call.Content = free("The tool result")
	act(a, call, func(ctx context.Context, in *toolCallInput) (*toolResult, error) {
		if err := jsonlimit.CheckBody(in.RawBody); err != nil {
			return nil, rest.InvalidRequest.Problem("invalid request: the tool call " + err.Error())
		}
		server, err := toolServer(a, in.Desktop)
		if err != nil {
			return nil, err
		}
		if actor := desktop.ActorFrom(ctx); actor.Name != "" && actor.Kind == desktop.ActorAPI {
			actor.Kind = desktop.ActorAgent
			ctx = desktop.WithActor(ctx, actor)
		}
		result, err := server.Call(ctx, computer.Provider(in.Provider), in.RawBody)
		out := &toolResult{Body: result}
		if incomplete, ok := result.(interface{ Problem() string }); ok {
			out.Problem = incomplete.Problem()
		}
		return out, toolProblem(err)
	})
}

// toolServer returns the tools of a running desktop.
func toolServer(a *Area, id string) (*computer.Server, error) {
	d, err := running[computer.Desktop](a, id)
	if err != nil {
		return nil, err
	}
	return a.mcpServer(id, d)
}

func toolProblem(err error) error {
	if bad, ok := errors.AsType[*computer.InvalidError](err); ok {
		return rest.InvalidRequest.Problem("invalid request: "+bad.Field+" "+bad.Reason).With("field", bad.Field)
	}
	return err
}
