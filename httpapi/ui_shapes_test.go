package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/internal/testbrowser"
)

// repeatingAgent is an agent that sends the lines of a prompt as updates, or as questions
// for permission if they have a tool call. Its turns end when they are cancelled.
func repeatingAgent(_ context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var turn json.RawMessage
	for n := 0; lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Prompt []struct{ Text string } }
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		result := ""
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":1,"agentCapabilities":{}}`
		case "session/new":
			result = `{"sessionId":"s"}`
		case "session/prompt":
			turn = m.ID
			for line := range strings.Lines(m.Params.Prompt[0].Text) {
				line = strings.TrimSpace(line)
				text := fmt.Sprintf(`"method":"session/update","params":{"sessionId":"s","update":%s}`, line)
				if strings.HasPrefix(line, `{"toolCall"`) {
					n++
					text = fmt.Sprintf(`"id":"q%d","method":"session/request_permission","params":{"sessionId":"s",%s`, n, line[1:])
				}
				if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0",%s}`+"\n", text); err != nil {
					return err
				}
			}
		case "session/cancel":
			m.ID, result = turn, `{"stopReason":"cancelled"}`
		}
		if result == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result); err != nil {
			return err
		}
	}
	return lines.Err()
}

// TestPageWrongShapes: a message of an agent that has a wrong shape hides no other, and the
// turn can be stopped.
func TestPageWrongShapes(t *testing.T) {
	t.Parallel()
	cfg := withMock(t)
	cfg.AgentHost.Launch = func(context.Context, string) (agents.Launch, error) { return agents.Launch{Run: repeatingAgent}, nil }
	s := serve(t, cfg)
	picture := `{"type":"content","content":{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}}`
	option := `"options":[null,{"optionId":"yes","name":"Allow it","kind":"allow_once"}]`
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for name, c := range map[string]struct{ update, selector, text string }{
		"content":  {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it","content":[null],"locations":[null]}`, ".call", "Call it"},
		"progress": {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it"}` + "\n" + `{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[null]}`, ".call", "Call it"},
		"input":    {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it","rawInput":{"path":{"toString":0}}}`, ".call", `"toString": 0`},
		"action":   {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it","rawInput":{"action":{"toString":0}}}`, ".entry.error", "This event can't be shown"},
		"points":   {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it","rawInput":{"path":5}}`, ".call", "Call it"},
		"picture": {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it","status":"completed","rawInput":{"action":{"toString":0}},"content":[` + picture + `]}`,
			".entry.error", "This event can't be shown"},
		"usage":      {`{"sessionUpdate":"usage_update","size":1}`, ".entry.user", "usage_update"},
		"plan":       {`{"sessionUpdate":"plan","entries":[null,{"content":{"toString":0}}]}`, ".entry.user", "plan"},
		"plan steps": {`{"sessionUpdate":"plan","entries":5}`, ".entry.error", "This event can't be shown"},
		"title":      {`{"sessionUpdate":"session_info_update","title":{"toString":0}}`, ".entry.error", "This event can't be shown"},
		"permission": {`{"toolCall":{"toolCallId":"c","title":"Ask it","content":[null],"rawInput":{"command":{"toString":0}}},` + option + `}`, ".permission", `"toString": 0`},
		"plan to approve": {`{"toolCall":{"toolCallId":"c","title":"Ask it","kind":"switch_mode","rawInput":{"cwd":{"toString":0}}},` + option + `}`,
			".permission", `"toString": 0`},
		"text":      {`{"toolCall":{"toolCallId":"c","title":"Ask it","rawInput":"an input"},` + option + `}`, ".permission", "an input"},
		"deep":      {`{"toolCall":{"toolCallId":"c","title":"Ask it","rawInput":{"command":` + deep + `}},` + option + `}`, ".permission", "Nested too deeply"},
		"deep call": {`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Call it","rawInput":{"path":` + deep + `}}`, ".call", "Nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
			v := s.view(t, s.withToken()+"#/s/"+id)
			v.shows(".conversation header .state", "Ready")
			message, err := json.Marshal(map[string]string{"message": c.update + "\n" + `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"the next message"}}`})
			if err != nil {
				t.Fatal(err)
			}
			s.post(t, "/v1/sessions/"+id+"/messages", string(message)).want(t, 204)
			for range 2 {
				v.shows(c.selector, c.text)
				v.holds(`[...document.querySelectorAll(".entry.text")].some((e) => e.innerText.includes("the next message"))`)
				v.shows(".composer .stop", "")
				testbrowser.Do(v.ctx, t, chromedp.Reload())
			}
			if c.selector == ".permission" {
				v.shows(".permission .options button:last-child", "Allow it")
				v.click(".permission .options button:last-child")
				v.holds(`document.querySelector(".permission") === null`)
			}
			v.click(".composer .stop")
			v.shows(".conversation header .state", "Ready")
		})
	}
}
