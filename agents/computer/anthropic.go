package computer

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/deskhand/deskhand/desktop"
)

// anthropicTools follow Anthropic's documentation of the computer use tool and the types of
// @anthropic-ai/sdk (BetaToolComputerUse20251124, BetaComputerToolset20260801).
var anthropicTools = map[string]func(desktop.Size) object{
	"":         anthropicTool("computer_20251124", object{"enable_zoom": true}),
	"20241022": anthropicTool("computer_20241022", nil),
	"20250124": anthropicTool("computer_20250124", nil),
	"20251124": anthropicTool("computer_20251124", object{"enable_zoom": true}),
	"20260801": func(desktop.Size) object { return object{"type": "computer_toolset_20260801"} },
}

func anthropicTool(kind string, more object) func(desktop.Size) object {
	return func(size desktop.Size) object {
		tool := object{"type": kind, "name": "computer", "display_width_px": size.Width, "display_height_px": size.Height}
		maps.Copy(tool, more)
		return tool
	}
}

// callAnthropic executes a tool_use block. The block of a toolset's member has the name of
// the action, and other blocks have it in their input.
func (s *Server) callAnthropic(ctx context.Context, raw json.RawMessage) (any, error) {
	var call struct {
		Type, ID, Name string
		Input          members
	}
	if err := decodeCall(raw, &call); err != nil {
		return nil, err
	}
	if call.Input == nil {
		return nil, &InvalidError{"input", "is missing; it is the input of the tool_use block"}
	}
	action, err := json.Marshal(call.Input)
	if err != nil {
		return nil, err
	}
	if call.Name != "" && call.Name != "computer" {
		action = call.Input.with("action", call.Name)
	}
	done := s.perform(ctx, []json.RawMessage{action}, false)
	content := []any{object{"type": "text", "text": done.text}}
	if done.picture != nil && !done.failed { // results that are errors can have only text
		content = append(content, object{"type": "image", "source": object{
			"type": "base64", "media_type": mediaType(done.picture), "data": done.picture.Data,
		}})
	}
	if call.Type != "tool_use" {
		return object{"content": content, "isError": done.failed}, nil
	}
	return object{"type": "tool_result", "tool_use_id": call.ID, "content": content, "is_error": done.failed}, nil
}

func mediaType(pic *desktop.Screenshot) string { return "image/" + string(pic.Format) }
