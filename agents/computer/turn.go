package computer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Turn is what a model did between two requests to its provider.
type Turn struct {
	// Messages are the model's message and the results of its calls. The caller appends them to
	// the messages (Anthropic), the input (OpenAI) or the contents (Gemini) of the next request.
	Messages []any

	Text string // what the model said
	Done bool   // the model called no tool; Messages has no results then
}

// Turn executes the calls in a provider's answer to a request: of the Messages API (Anthropic),
// the Responses API (OpenAI) or generateContent (Gemini). It executes them in their order, each
// as [Server.Call] does, so it does not execute a call with a safety check.
//
// If Call returns an error, Turn returns it with the zero Turn. The calls before that one have
// been executed. An answer without a message of the model, such as an error of the API, is an
// *InvalidError with the beginning of the answer.
func (s *Server) Turn(ctx context.Context, p Provider, answer []byte) (Turn, error) {
	var body struct {
		Content, Output []json.RawMessage
		Candidates      []struct {
			Content struct {
				Role  string            `json:"role"`
				Parts []json.RawMessage `json:"parts"`
			}
		}
	}
	err := json.Unmarshal(answer, &body)
	parts := slices.Concat(body.Content, body.Output)
	if len(body.Candidates) > 0 {
		parts = body.Candidates[0].Content.Parts
	}
	if err != nil || len(parts) == 0 {
		return Turn{}, &InvalidError{"answer", fmt.Sprintf("has no message of a model: %.300s", answer)}
	}
	var t Turn
	var results []any
	for _, raw := range parts {
		call, text := partOf(raw)
		t.Text += text
		if call == nil {
			continue
		}
		result, err := s.Call(ctx, p, call)
		if err != nil {
			return Turn{}, err
		}
		if p == Gemini {
			result = object{"functionResponse": result}
		}
		results = append(results, result)
	}
	t.Done = results == nil
	switch p {
	case Anthropic:
		t.Messages = []any{object{"role": "assistant", "content": parts}, object{"role": "user", "content": results}}
	case Gemini:
		t.Messages = []any{body.Candidates[0].Content, object{"role": "user", "parts": results}}
	case OpenAI:
		for _, raw := range parts {
			t.Messages = append(t.Messages, raw)
		}
		t.Messages = append(t.Messages, results...)
	}
	if t.Done && p != OpenAI { // no results: a message without content would be refused
		t.Messages = t.Messages[:min(1, len(t.Messages))]
	}
	return t, nil
}

// partOf returns the call in a part of an answer, or nil, and what the model says in it.
func partOf(raw json.RawMessage) (call json.RawMessage, text string) {
	var part struct {
		Type, Text   string
		FunctionCall json.RawMessage
		Content      json.RawMessage
	}
	if json.Unmarshal(raw, &part) != nil {
		return nil, ""
	}
	var said []struct{ Text string }
	if json.Unmarshal(part.Content, &said) == nil {
		for _, c := range said {
			part.Text += c.Text
		}
	}
	if part.Text != "" {
		part.Text += "\n"
	}
	switch {
	case part.FunctionCall != nil:
		return part.FunctionCall, part.Text
	case part.Type == "tool_use", part.Type == "computer_call":
		return raw, part.Text
	}
	return nil, part.Text
}
