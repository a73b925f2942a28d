package fakellm

import (
	"encoding/json"
	"net/http"
)

// messages answers POST /v1/messages (docs.anthropic.com, "Messages" and
// "Streaming messages").
func (e *exchange) messages() error {
	var in struct {
		Model    string
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(e.body, &in); err != nil {
		return err
	}
	var c conversation
	for _, t := range in.Tools {
		c.tools = append(c.tools, tool{name: t.Name})
	}
	for _, m := range in.Messages {
		if m.Role != "user" {
			continue
		}
		for _, b := range blocksOf(m.Content) {
			if b.Type == "tool_result" {
				c.addResult(resultOf(b.Content))
			} else {
				c.addText(b.Text)
			}
		}
	}
	out := c.answer(e.r.Context())
	if out.status != 0 {
		e.fail(out.status, out.problem)
		return nil
	}
	stop := "end_turn"
	if out.called {
		stop = "tool_use"
	}
	message := members{
		"id": e.id("msg_", 0), "type": "message", "role": "assistant", "model": in.Model, "stop_sequence": nil,
		"content": e.blocks(out.parts), "stop_reason": stop, "usage": e.usage(),
	}
	if !in.Stream {
		e.send(http.StatusOK, message)
		return nil
	}
	blocks := message["content"].([]members)
	message["content"], message["stop_reason"] = []any{}, nil
	e.event("message_start", members{"type": "message_start", "message": message})
	for i, b := range blocks {
		e.block(i, b)
	}
	e.event("message_delta", members{
		"type": "message_delta", "delta": members{"stop_reason": stop, "stop_sequence": nil}, "usage": e.usage(),
	})
	e.event("message_stop", members{"type": "message_stop"})
	return nil
}

func (e *exchange) usage() members {
	return members{"input_tokens": e.tokens(), "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
}

func (e *exchange) blocks(parts []part) []members {
	out := make([]members, len(parts))
	for i, p := range parts {
		switch p.kind {
		case "say":
			out[i] = members{"type": "text", "text": p.text}
		case "think":
			out[i] = members{"type": "thinking", "thinking": p.text, "signature": "bm9uZQ=="}
		case "call":
			out[i] = members{"type": "tool_use", "id": e.id("toolu_", i), "name": p.tool.name, "input": json.RawMessage(p.text)}
		}
	}
	return out
}

// block streams one block.
func (e *exchange) block(i int, b members) {
	start := func(empty members) {
		e.event("content_block_start", members{"type": "content_block_start", "index": i, "content_block": empty})
	}
	delta := func(d members) {
		e.event("content_block_delta", members{"type": "content_block_delta", "index": i, "delta": d})
	}
	switch b["type"] {
	case "text":
		start(members{"type": "text", "text": ""})
		pieces(b["text"].(string), func(s string) { delta(members{"type": "text_delta", "text": s}) })
	case "thinking":
		start(members{"type": "thinking", "thinking": "", "signature": ""})
		pieces(b["thinking"].(string), func(s string) { delta(members{"type": "thinking_delta", "thinking": s}) })
		delta(members{"type": "signature_delta", "signature": b["signature"]})
	case "tool_use":
		start(members{"type": "tool_use", "id": b["id"], "name": b["name"], "input": members{}})
		pieces(string(b["input"].(json.RawMessage)), func(s string) { delta(members{"type": "input_json_delta", "partial_json": s}) })
	}
	e.event("content_block_stop", members{"type": "content_block_stop", "index": i})
}
