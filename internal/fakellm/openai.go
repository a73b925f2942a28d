package fakellm

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// offer is a tool in a request of OpenAI's APIs.
type offer struct {
	Type, Name string
	Function   struct{ Name string }
	Tools      []offer // of a namespace
}

func toolsOf(offers []offer, space string) []tool {
	var out []tool
	for _, o := range offers {
		switch {
		case o.Type == "computer" || o.Type == "computer_use_preview":
			out = append(out, tool{name: "computer", computer: true})
		case o.Type == "namespace":
			out = append(out, toolsOf(o.Tools, o.Name)...)
		case o.Function.Name != "":
			out = append(out, tool{name: o.Function.Name})
		case o.Name != "":
			out = append(out, tool{name: o.Name, space: space, custom: o.Type == "custom"})
		}
	}
	return out
}

// completions answers POST /v1/chat/completions (platform.openai.com, "Chat
// Completions").
func (e *exchange) completions() error {
	var in struct {
		Model    string
		Stream   bool
		Tools    []offer
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(e.body, &in); err != nil {
		return err
	}
	c := conversation{tools: toolsOf(in.Tools, "")}
	for _, m := range in.Messages {
		switch m.Role {
		case "tool":
			c.addResult(resultOf(m.Content))
		case "user":
			for _, b := range blocksOf(m.Content) {
				c.addText(b.Text)
				if b.Type == "image_url" { // the image of a result: results are texts in this API
					c.images++
				}
			}
		}
	}
	out := c.answer(e.r.Context())
	if out.status != 0 {
		e.fail(out.status, out.problem)
		return nil
	}
	finish := "stop"
	if out.called {
		finish = "tool_calls"
	}
	usage := members{"prompt_tokens": e.tokens(), "completion_tokens": 10, "total_tokens": e.tokens() + 10}
	whole := func(kind string, choice members) members {
		choice["index"] = 0
		return members{
			"id": e.id("chatcmpl-", 0), "object": kind, "created": time.Now().Unix(), "model": in.Model,
			"choices": []any{choice}, "usage": usage,
		}
	}
	if !in.Stream {
		e.send(http.StatusOK, whole("chat.completion", members{"message": e.message(out.parts), "finish_reason": finish}))
		return nil
	}
	delta := func(d members) {
		e.event("", whole("chat.completion.chunk", members{"delta": d, "finish_reason": nil}))
	}
	delta(members{"role": "assistant", "content": ""})
	for i, p := range out.parts {
		e.delta(i, p, delta)
	}
	e.event("", whole("chat.completion.chunk", members{"delta": members{}, "finish_reason": finish}))
	e.event("", "[DONE]")
	return nil
}

// message returns an answer that is not streamed.
func (e *exchange) message(parts []part) members {
	var said strings.Builder
	var calls []any
	for i, p := range parts {
		switch p.kind {
		case "say":
			said.WriteString(p.text)
		case "call":
			calls = append(calls, members{
				"id": e.id("call_", i), "type": "function", "function": members{"name": p.tool.name, "arguments": p.text},
			})
		}
	}
	out := members{"role": "assistant", "content": said.String()}
	if calls != nil {
		out["tool_calls"] = calls
	}
	return out
}

// delta streams one part of an answer.
func (e *exchange) delta(i int, p part, send func(members)) {
	switch p.kind {
	case "say":
		pieces(p.text, func(s string) { send(members{"content": s}) })
	case "think":
		pieces(p.text, func(s string) { send(members{"reasoning_content": s}) })
	case "call":
		call := func(m members) { m["index"] = 0; send(members{"tool_calls": []any{m}}) }
		call(members{"id": e.id("call_", i), "type": "function", "function": members{"name": p.tool.name, "arguments": ""}})
		pieces(p.text, func(s string) { call(members{"function": members{"arguments": s}}) })
	}
}
