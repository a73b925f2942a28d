package fakellm

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// responses answers POST /v1/responses (platform.openai.com, "Responses" and
// "Streaming events").
func (e *exchange) responses() error {
	var in struct {
		Model  string
		Stream bool
		Tools  []offer
		Input  json.RawMessage
	}
	if err := json.Unmarshal(e.body, &in); err != nil {
		return err
	}
	c := conversation{tools: toolsOf(in.Tools, "")}
	if err := c.items(in.Input); err != nil {
		return err
	}
	out := c.answer(e.r.Context())
	if out.status != 0 {
		e.fail(out.status, out.problem)
		return nil
	}
	s := &stream{e: e, model: in.Model, on: in.Stream}
	s.event("response.created", members{"response": s.response("in_progress", []any{})})
	items := []any{}
	for i, p := range out.parts {
		item := s.item(i, p)
		s.event("response.output_item.done", members{"output_index": i, "item": item})
		items = append(items, item)
	}
	s.event("response.completed", members{"response": s.response("completed", items)})
	if !in.Stream {
		e.send(http.StatusOK, s.response("completed", items))
	}
	return nil
}

// items adds the input: a text or a list of items.
func (c *conversation) items(input json.RawMessage) error {
	var text string
	if json.Unmarshal(input, &text) == nil {
		c.addText(text)
		return nil
	}
	var items []struct {
		Type, Role      string
		Content, Output json.RawMessage
	}
	if err := json.Unmarshal(input, &items); err != nil {
		return err
	}
	for _, it := range items {
		switch {
		case strings.HasSuffix(it.Type, "_call_output"):
			c.addResult(resultOf(it.Output))
		case it.Role == "user":
			for _, b := range blocksOf(it.Content) {
				c.addText(b.Text)
			}
		}
	}
	return nil
}

// stream sends the events of a response if the request asks for a stream.
type stream struct {
	e     *exchange
	model string
	on    bool
	seq   int
}

func (s *stream) event(kind string, m members) {
	if !s.on {
		return
	}
	m["type"], m["sequence_number"] = kind, s.seq
	s.seq++
	s.e.event(kind, m)
}

func (s *stream) response(status string, items []any) members {
	out := members{
		"id": s.e.id("resp_", 0), "object": "response", "created_at": time.Now().Unix(), "model": s.model, "status": status,
		"output": items, "parallel_tool_calls": false, "tool_choice": "auto", "tools": []any{}, "error": nil, "incomplete_details": nil,
	}
	if status == "completed" {
		out["usage"] = members{
			"input_tokens": s.e.tokens(), "input_tokens_details": members{"cached_tokens": 0}, "output_tokens": 10,
			"output_tokens_details": members{"reasoning_tokens": 0}, "total_tokens": s.e.tokens() + 10,
		}
	}
	return out
}

// item streams a part of an answer and returns its item.
func (s *stream) item(i int, p part) members {
	id := s.e.id("item_", i)
	of := func(kind string, m members) {
		m["item_id"], m["output_index"] = id, i
		s.event(kind, m)
	}
	begin := func(m members) { s.event("response.output_item.added", members{"output_index": i, "item": m}) }
	switch p.kind {
	case "think":
		begin(members{"type": "reasoning", "id": id, "summary": []any{}})
		of("response.reasoning_summary_part.added", members{"summary_index": 0, "part": members{"type": "summary_text", "text": ""}})
		pieces(p.text, func(t string) { of("response.reasoning_summary_text.delta", members{"summary_index": 0, "delta": t}) })
		return members{"type": "reasoning", "id": id, "summary": []any{members{"type": "summary_text", "text": p.text}}}
	case "call":
		return s.call(i, id, p, begin, of)
	default:
		text := func(t string) members { return members{"type": "output_text", "text": t, "annotations": []any{}} }
		begin(members{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}})
		of("response.content_part.added", members{"content_index": 0, "part": text("")})
		pieces(p.text, func(t string) { of("response.output_text.delta", members{"content_index": 0, "delta": t}) })
		of("response.output_text.done", members{"content_index": 0, "text": p.text})
		of("response.content_part.done", members{"content_index": 0, "part": text(p.text)})
		return members{"type": "message", "id": id, "role": "assistant", "status": "completed", "content": []any{text(p.text)}}
	}
}

func (s *stream) call(i int, id string, p part, begin func(members), of func(string, members)) members {
	if p.tool.computer {
		return s.computerCall(i, id, p, begin)
	}
	kind, field := "function_call", "arguments"
	if p.tool.custom {
		kind, field = "custom_tool_call", "input"
	}
	item := func(status, text string) members {
		out := members{"type": kind, "id": id, "call_id": s.e.id("call_", i), "name": p.tool.name, field: text, "status": status}
		if p.tool.space != "" {
			out["namespace"] = p.tool.space
		}
		return out
	}
	begin(item("in_progress", ""))
	pieces(p.text, func(t string) { of("response."+kind+"_"+field+".delta", members{"delta": t}) })
	of("response."+kind+"_"+field+".done", members{field: p.text})
	return item("completed", p.text)
}

// computerCall returns an item of the computer tool. The arguments are its action.
func (s *stream) computerCall(i int, id string, p part, begin func(members)) members {
	item := members{
		"type": "computer_call", "id": id, "call_id": s.e.id("call_", i), "action": json.RawMessage(p.text),
		"pending_safety_checks": []any{}, "status": "completed",
	}
	begin(item)
	return item
}
