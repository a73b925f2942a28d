package fakellm

import (
	"encoding/json"
	"net/http"
)

// generateContent answers POST /v1beta/models/{model}:generateContent (ai.google.dev,
// "Generating content"). Every function is offered.
func (e *exchange) generateContent() error {
	var in struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text     string
				Response *struct {
					Response json.RawMessage
					Parts    []json.RawMessage // images
				} `json:"functionResponse"`
			}
		}
	}
	if err := json.Unmarshal(e.body, &in); err != nil {
		return err
	}
	c := conversation{every: true}
	for _, content := range in.Contents {
		if content.Role == "model" {
			continue
		}
		for _, p := range content.Parts {
			if p.Response != nil {
				c.addResult(string(p.Response.Response), len(p.Response.Parts))
			} else {
				c.addText(p.Text)
			}
		}
	}
	out := c.answer(e.r.Context())
	if out.status != 0 {
		e.fail(out.status, out.problem)
		return nil
	}
	var parts []any
	for _, p := range out.parts {
		if p.kind == "call" {
			parts = append(parts, members{"functionCall": members{"name": p.tool.name, "args": json.RawMessage(p.text)}})
		} else {
			parts = append(parts, members{"text": p.text, "thought": p.kind == "think"})
		}
	}
	e.send(http.StatusOK, members{
		"candidates":    []any{members{"content": members{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": members{"promptTokenCount": e.tokens(), "candidatesTokenCount": 10, "totalTokenCount": e.tokens() + 10},
	})
	return nil
}
