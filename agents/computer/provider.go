package computer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// Provider is a provider of models. Each has its own form of a computer tool's calls and
// results.
type Provider string

// The providers.
const (
	Anthropic Provider = "anthropic"
	OpenAI    Provider = "openai"
	Gemini    Provider = "gemini"
)

// adapter is the form of a provider.
type adapter struct {
	// tools has, by version, what returns the definition of the tool for screenshots of a
	// size. The empty version is the default.
	tools map[string]func(desktop.Size) object
	call  func(*Server, context.Context, json.RawMessage) (any, error)
}

var adapters = map[Provider]adapter{
	Anthropic: {anthropicTools, (*Server).callAnthropic},
	OpenAI:    {openaiTools, (*Server).callOpenAI},
	Gemini:    {geminiTools, (*Server).callGemini},
}

// InvalidError reports an argument that no call can have. Reason says what is valid.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return "computer: " + e.Field + " " + e.Reason }

func (p Provider) adapter() (adapter, error) {
	a, ok := adapters[p]
	if !ok {
		return a, &InvalidError{"provider", fmt.Sprintf("%.80q is unknown; it must be anthropic, openai or gemini", string(p))}
	}
	return a, nil
}

// Tool returns the definition of a provider's computer tool, an element of "tools" in a
// request to the provider. If the definition has a size, that is the size of this server's
// screenshots. The versions are
//   - of Anthropic: "20241022", "20250124", "20251124" (the default) and "20260801", as in the
//     tool's type;
//   - of OpenAI: "computer" (the default) and "computer_use_preview", the tool's type;
//   - of Gemini: "desktop" (the default), "browser" for models before Gemini 3.5, and
//     "interactions" for the Interactions API.
//
// It returns an *InvalidError if the provider or the version is unknown.
func (s *Server) Tool(p Provider, version string) (map[string]any, error) {
	a, err := p.adapter()
	if err != nil {
		return nil, err
	}
	define, ok := a.tools[version]
	if !ok {
		known := slices.Sorted(maps.Keys(a.tools))[1:] // without the empty one
		return nil, &InvalidError{"version", fmt.Sprintf("%.80q is unknown; it must be one of %s", version, strings.Join(known, ", "))}
	}
	return define(s.pictureSize()), nil
}

// Call executes a call of a provider's computer tool, and returns the result in the
// provider's form, for the next request to the provider:
//   - Anthropic: call is a tool_use block, and the result a tool_result block. An object with
//     the block's input, and its name if it is a member of a toolset, has a result with content
//     and isError.
//   - OpenAI: call is a computer_call item, and the result a computer_call_output item.
//   - Gemini: call is a functionCall, and the result a functionResponse. A function_call of the
//     Interactions API has a function_result.
//
// An action that fails, also because ctx ends, is no error of Call: its result says that it
// failed, OpenAI's by the status "incomplete". The actor of the action is as for tools, with the
// provider's name in place of the client's.
//
// If the provider has added a safety check to the call, Call executes it only if call
// acknowledges the check, in acknowledged_safety_checks (OpenAI) or safety_acknowledgement
// (Gemini).
//
// Call blocks until the action is done and its picture is taken. It returns an *InvalidError if
// the provider is unknown or if call is not of the provider's form. For OpenAI, whose results
// always have a screenshot, it returns an error with the text of the result if none could be
// taken, for example because the desktop does not run or ctx has ended.
func (s *Server) Call(ctx context.Context, p Provider, call json.RawMessage) (any, error) {
	a, err := p.adapter()
	if err != nil {
		return nil, err
	}
	if desktop.ActorFrom(ctx) == desktop.ActorFrom(context.Background()) {
		actor := s.cfg.Actor
		if actor == (desktop.Actor{}) {
			actor = desktop.Actor{Kind: desktop.ActorAgent, Name: string(p)}
		}
		ctx = desktop.WithActor(ctx, actor)
	}
	return a.call(s, ctx, call)
}

// decodeCall decodes a provider's call.
func decodeCall(call json.RawMessage, into any) error {
	if err := json.Unmarshal(call, into); err != nil {
		return &InvalidError{"call", "must be an object of the provider's form: " + cuttext.Cut(err.Error(), maxError)}
	}
	return nil
}

// members is a JSON object whose members are read by name.
type members map[string]json.RawMessage

// with returns the object with another member.
func (m members) with(name string, value any) json.RawMessage {
	m = maps.Clone(m)
	if m == nil {
		m = members{}
	}
	m[name], _ = json.Marshal(value) // a string or a number
	raw, _ := json.Marshal(m)
	return raw
}

// performed is what a call has done.
type performed struct {
	text    string
	picture *desktop.Screenshot // nil: none
	failed  bool
}

// perform executes actions one after another until one fails. At the end it takes a
// screenshot, unless the last action returns a picture or, if always is not set, no action
// succeeded.
func (s *Server) perform(ctx context.Context, all []json.RawMessage, always bool) performed {
	done, err := s.performAll(ctx, all)
	p := performed{text: done.text, picture: done.picture, failed: done.failed || err != nil}
	if err != nil {
		p.text = explain(err)
	}
	if p.picture == nil && (always || done.acted && !p.failed) {
		if p.picture, err = s.takeScreenshot(ctx, usualSettle, usualTimeout); err != nil {
			p.text += " No screenshot could be taken: " + explain(err)
		}
	}
	return p
}

func (s *Server) performAll(ctx context.Context, all []json.RawMessage) (outcome, error) {
	if len(all) != 1 {
		// Providers have no way to say that the screen may look in any way.
		return s.list(ctx, list{actions: all, expect: batch.ExpectAny})
	}
	in, err := decode(all[0])
	if err != nil {
		return outcome{}, err
	}
	return s.act(ctx, in)
}

// failedError reports that a result could not be made, because there is no screenshot.
type failedError struct{ text string }

func (e *failedError) Error() string { return "computer: " + e.text }
