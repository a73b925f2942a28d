package computer

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/deskhand/deskhand/desktop"
)

// openaiTools follow OpenAI's guide to computer use and the types of openai (ComputerTool,
// ComputerUsePreviewTool).
var openaiTools = map[string]func(desktop.Size) object{
	"":         func(desktop.Size) object { return object{"type": "computer"} },
	"computer": func(desktop.Size) object { return object{"type": "computer"} },
	"computer_use_preview": func(size desktop.Size) object {
		return object{"type": "computer_use_preview", "display_width": size.Width, "display_height": size.Height, "environment": "linux"}
	},
}

// safetyCheck is a check of the provider that the user of the model must acknowledge.
type safetyCheck struct {
	ID      string  `json:"id"`
	Code    *string `json:"code,omitempty"`
	Message *string `json:"message,omitempty"`
}

// openaiOutput is a computer_call_output item.
type openaiOutput struct {
	Type         string        `json:"type"`
	CallID       string        `json:"call_id,omitempty"`
	Output       object        `json:"output"`
	Acknowledged []safetyCheck `json:"acknowledged_safety_checks,omitempty"`
	Status       string        `json:"status,omitempty"`

	problem string
}

// Problem returns why the item is incomplete. The item itself has no member for that.
func (o openaiOutput) Problem() string { return o.problem }

// callOpenAI executes a computer_call item. Its result always has a screenshot.
func (s *Server) callOpenAI(ctx context.Context, raw json.RawMessage) (any, error) {
	var call struct {
		CallID       string            `json:"call_id"`
		Action       json.RawMessage   `json:"action"`
		Actions      []json.RawMessage `json:"actions"`
		Pending      []safetyCheck     `json:"pending_safety_checks"`
		Acknowledged []safetyCheck     `json:"acknowledged_safety_checks"`
	}
	if err := decodeCall(raw, &call); err != nil {
		return nil, err
	}
	list := call.Actions
	switch {
	case list == nil && call.Action == nil:
		return nil, &InvalidError{"action", "is missing; a computer_call has action or actions"}
	case list == nil:
		list = []json.RawMessage{call.Action}
	case call.Action != nil:
		return nil, &InvalidError{"actions", "cannot be given together with action"}
	}
	out := openaiOutput{Type: "computer_call_output", CallID: call.CallID}
	acknowledged := map[string]bool{}
	for _, c := range call.Acknowledged {
		acknowledged[c.ID] = true
	}
	for _, c := range call.Pending {
		if !acknowledged[c.ID] {
			out.problem = "The safety check " + c.ID + " is not acknowledged, so nothing was done."
			list = []json.RawMessage{json.RawMessage(`{"type":"screenshot"}`)}
			continue
		}
		out.Acknowledged = append(out.Acknowledged, c)
	}
	done := s.perform(ctx, list, true)
	if done.picture == nil {
		return nil, &failedError{done.text}
	}
	if done.failed {
		out.problem = done.text
	}
	if out.problem != "" {
		out.Status = "incomplete"
	}
	out.Output = object{
		"type":      "computer_screenshot",
		"image_url": "data:" + mediaType(done.picture) + ";base64," + base64.StdEncoding.EncodeToString(done.picture.Data),
	}
	return out, nil
}
