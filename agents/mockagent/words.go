package mockagent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// word is a command that a prompt may begin with.
type word struct {
	name, usage, help string
	do                func(t *turn, ctx context.Context, rest string) (stop string, err error)
}

var words = []word{
	{"demo", "demo", "a message, a thought, tool calls, a plan, usage", (*turn).demo},
	{"markdown", "markdown", "a message with every sort of markup", (*turn).markdown},
	{"permission", "permission", "a tool call that asks first", (*turn).permission},
	{"plan", "plan", "a plan that wants approval", (*turn).plan},
	{"question", "question", "a form with two questions", (*turn).question},
	{"image", "image", "a picture, as message and from a tool", (*turn).image},
	{"diff", "diff", "an edit with the text before and after", (*turn).diff},
	{"error", "error", "the turn fails", (*turn).fail},
	{"slow", "slow", "a tick every half second, 20 times", (*turn).slow},
	{"burst", "burst N", "N messages, as fast as they go", (*turn).burst},
	{"crash", "crash", "the process ends in the middle of the turn", (*turn).crash},
	{"desktop", "desktop X Y", "a click on the desktop, after asking", (*turn).desktop},
	{"tool", "tool NAME {json}", "a call of a mounted MCP server's tool", (*turn).tool},
}

func help() string {
	var b strings.Builder
	b.WriteString("I am the mock agent. I echo what you say, but for these words:\n\n")
	for _, w := range words {
		fmt.Fprintf(&b, "- `%s`: %s\n", w.usage, w.help)
	}
	b.WriteString("\n")
	return b.String()
}

// echo repeats the prompt.
func (t *turn) echo(context.Context, string) (string, error) {
	for _, b := range t.prompt {
		switch b.Type {
		case "text":
			t.say(b.Text)
		case "resource_link":
			t.say(b.URI)
		default:
			t.update(update{Kind: "agent_message_chunk", Content: b})
		}
	}
	return stopEnd, nil
}

// call announces a tool call and returns its id.
func (t *turn) call(u update) string {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.a.calls++
	u.Kind, u.ToolCallID = "tool_call", "call-"+strconv.Itoa(t.a.calls)
	t.a.sendUpdate(t.s, u)
	return u.ToolCallID
}

// endCall sends the end of a tool call.
func (t *turn) endCall(id, status string, content ...any) {
	t.update(update{Kind: "tool_call_update", ToolCallID: id, Status: status, Content: content})
}

// content returns a block as an element of a tool call's content.
func content(b block) any { return map[string]any{"type": "content", "content": b} }

func (t *turn) demo(ctx context.Context, _ string) (string, error) {
	t.update(update{Kind: "agent_thought_chunk", Content: textBlock("The user wants to see everything. ")})
	t.update(update{Kind: "agent_thought_chunk", Content: textBlock("First a plan, then the file.")})
	plan := func(first, second string) {
		t.update(update{Kind: "plan", Entries: []any{
			map[string]string{"content": "Read the file", "priority": "high", "status": first},
			map[string]string{"content": "Run the tests", "priority": "medium", "status": second},
		}})
	}
	plan("in_progress", "pending")
	t.say("I will look at ")
	t.say("the file first.")
	const source = "package main\n\nfunc main() {}\n"
	id := t.call(update{
		Title: "Read main.go", ToolKind: "read", Status: "pending",
		Locations: []any{map[string]any{"path": "/project/main.go", "line": 1}}, RawInput: map[string]string{"path": "/project/main.go"},
	})
	t.update(update{Kind: "tool_call_update", ToolCallID: id, Status: "in_progress"})
	t.endCall(id, "completed", content(textBlock(source)))
	plan("completed", "in_progress")
	id = t.call(update{Title: "go test ./...", ToolKind: "execute", Status: "in_progress", RawInput: map[string]string{"command": "go test ./..."}})
	t.endCall(id, "failed", content(textBlock("--- FAIL: TestDemo (0.00s)\nexit status 1")))
	plan("completed", "completed")
	t.update(update{Kind: "available_commands_update", Commands: []any{
		map[string]string{"name": "review", "description": "Would review the changes"},
	}})
	t.say("\n\nDone. A test **failed**, as you can see.")
	t.update(update{Kind: "usage_update", Used: tokens(t.inputBytes + t.outputBytes), Size: 200_000})
	return stopEnd, ctx.Err()
}

const markupSample = `# Heading

Text that is **bold**, *italic*, ~~struck~~, ` + "`code`" + ` and a [link](https://example.com).

- an item
- another
  - below it
- [x] done

1. first
2. second

| column | number |
|---|---:|
| a | 1 |
| b | 22 |

` + "```go" + `
func main() {
	fmt.Println("hello")
}
` + "```" + `

> A quotation.

---

<b>HTML that must be shown, not run:</b> <script>alert(1)</script><img src=x onerror=alert(1)>
`

func (t *turn) markdown(context.Context, string) (string, error) {
	for l := range strings.SplitAfterSeq(markupSample, "\n") {
		if l != "" {
			t.say(l)
		}
	}
	return stopEnd, nil
}

type option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// askPermission asks the client for permission and returns the kind of the chosen option, or
// "" if the client cancels.
func (t *turn) askPermission(ctx context.Context, call map[string]any, options ...option) (kind string, err error) {
	answer, err := t.a.ask(ctx, "session/request_permission", map[string]any{
		"sessionId": t.s.ID, "toolCall": call, "options": options,
	})
	if err != nil {
		return "", err
	}
	var r struct {
		Error  *rpcError `json:"error"`
		Result struct {
			Outcome struct {
				Outcome  string `json:"outcome"`
				OptionID string `json:"optionId"`
			} `json:"outcome"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return "", rpcErrorf(codeInternal, "the answer to the question is not what the protocol says: %v", err)
	}
	if r.Error != nil {
		return "", rpcErrorf(codeInternal, "the question was answered with an error: %s", r.Error.Message)
	}
	chosen := r.Result.Outcome
	if chosen.Outcome == "cancelled" {
		return "", nil
	}
	for _, o := range options {
		if chosen.Outcome == "selected" && o.ID == chosen.OptionID {
			return o.Kind, nil
		}
	}
	return "", rpcErrorf(codeInternal, "the question was answered with %q %q, which was not offered", chosen.Outcome, chosen.OptionID)
}

// question asks the client to fill in a form.
func (t *turn) question(ctx context.Context, _ string) (string, error) {
	type choice struct {
		Const string `json:"const"`
		Title string `json:"title"`
	}
	answer, err := t.a.ask(ctx, "elicitation/create", map[string]any{
		"sessionId": t.s.ID, "mode": "form", "message": "Please choose.",
		"requestedSchema": map[string]any{"type": "object", "properties": map[string]any{
			"colour":        map[string]any{"type": "string", "title": "Colour", "description": "Which colour?", "oneOf": []choice{{"red", "Red"}, {"blue", "Blue"}}},
			"colour_custom": map[string]any{"type": "string", "title": "Other"},
			"sizes":         map[string]any{"type": "array", "title": "Sizes", "description": "Which sizes?", "items": map[string]any{"anyOf": []choice{{"s", "Small"}, {"l", "Large"}}}},
		}},
	})
	if err != nil {
		return "", err
	}
	var r struct {
		Error  *rpcError       `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return "", rpcErrorf(codeInternal, "the answer to the question is not what the protocol says: %v", err)
	}
	if r.Error != nil {
		return "", rpcErrorf(codeInternal, "the question was answered with an error: %s", r.Error.Message)
	}
	t.say("You answered " + string(r.Result) + ".")
	return stopEnd, nil
}

func (t *turn) permission(ctx context.Context, kinds string) (string, error) {
	const command = "rm -rf build"
	input := map[string]string{"command": command}
	id := t.call(update{Title: "`" + command + "`", ToolKind: "execute", Status: "pending", RawInput: input})
	t.a.mu.Lock()
	always := t.s.Always
	t.a.mu.Unlock()
	options := []option{
		{"always", "Always allow", "allow_always"}, {"once", "Allow", "allow_once"}, {"no", "Reject", "reject_once"}, {"never", "Never allow", "reject_always"},
	}
	offered := cmp.Or(kinds, "allow_always allow_once reject_once")
	options = slices.DeleteFunc(options, func(o option) bool { return !slices.Contains(strings.Fields(offered), o.Kind) })
	kind := "allow_always"
	if !always {
		var err error
		kind, err = t.askPermission(
			ctx, map[string]any{"toolCallId": id, "title": "`" + command + "`", "kind": "execute", "status": "pending", "rawInput": input},
			options...,
		)
		if err != nil {
			t.endCall(id, "failed")
			return "", err
		}
	}
	switch kind {
	case "allow_always", "allow_once":
		t.a.mu.Lock()
		t.s.Always = kind == "allow_always"
		t.a.mu.Unlock()
		t.update(update{Kind: "tool_call_update", ToolCallID: id, Status: "in_progress"})
		t.endCall(id, "completed", content(textBlock("Nothing was removed: this is a mock agent.")))
		t.say("I was allowed to run it (" + kind + ").")
		return stopEnd, nil
	case "":
		t.endCall(id, "failed")
		return stopCancelled, nil
	default:
		t.endCall(id, "failed", content(textBlock("The user refused.")))
		t.say("I was not allowed to run it (" + kind + ").")
		return stopEnd, nil
	}
}

// plan asks like Claude Code before it leaves plan mode.
func (t *turn) plan(ctx context.Context, _ string) (string, error) {
	const text = "1. Read the file\n2. Change it\n3. Run the tests"
	input := map[string]string{"plan": text}
	id := t.call(update{Title: "Ready to code?", ToolKind: "switch_mode", Status: "pending", RawInput: input, Content: []any{content(textBlock(text))}})
	kind, err := t.askPermission(
		ctx, map[string]any{"toolCallId": id, "title": "Ready to code?", "kind": "switch_mode", "rawInput": input, "content": []any{content(textBlock(text))}},
		option{"normal", "Yes", "allow_once"}, option{"plan", "No, keep planning", "reject_once"},
	)
	switch {
	case err != nil:
		t.endCall(id, "failed")
		return "", err
	case kind == "":
		t.endCall(id, "failed")
		return stopCancelled, nil
	case kind == "allow_once":
		t.endCall(id, "completed")
		if _, err := t.a.change(t.s.ID, "mode", "normal"); err != nil {
			return "", err
		}
		t.say("The plan was approved.")
	default:
		t.endCall(id, "failed")
		t.say("The plan was not approved.")
	}
	return stopEnd, nil
}

var picture = sync.OnceValue(func() block {
	m := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for y := range 64 {
		for x := range 64 {
			m.Set(x, y, color.RGBA{uint8(4 * x), uint8(4 * y), 128, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err) // a bytes.Buffer accepts all writes
	}
	return block{Type: "image", Data: base64.StdEncoding.EncodeToString(b.Bytes()), MimeType: "image/png"}
})

func (t *turn) image(context.Context, string) (string, error) {
	t.say("This is a picture:")
	t.update(update{Kind: "agent_message_chunk", Content: picture()})
	id := t.call(update{Title: "Take a screenshot", ToolKind: "other", Status: "in_progress", RawInput: map[string]string{"action": "screenshot"}})
	t.endCall(id, "completed", content(picture()))
	return stopEnd, nil
}

func (t *turn) diff(context.Context, string) (string, error) {
	const file = "/project/main.go"
	id := t.call(update{
		Title: "Edit main.go", ToolKind: "edit", Status: "in_progress",
		Locations: []any{map[string]any{"path": file}}, RawInput: map[string]string{"file_path": file},
	})
	t.endCall(id, "completed", map[string]string{
		"type": "diff", "path": file,
		"oldText": "package main\n\nfunc main() {}\n",
		"newText": "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hello\")\n}\n",
	})
	t.say("I changed main.go.")
	return stopEnd, nil
}

func (t *turn) fail(context.Context, string) (string, error) {
	t.say("I will try.")
	return "", rpcErrorf(codeInternal, "the model is overloaded (529); try again in 30 s")
}

func (t *turn) slow(ctx context.Context, _ string) (string, error) {
	for i := range 20 {
		t.say(fmt.Sprintf("tick %d\n", i+1))
		if !t.pause(ctx, t.a.cfg.Tick) {
			return stopCancelled, nil
		}
	}
	return stopEnd, nil
}

func (t *turn) burst(ctx context.Context, rest string) (string, error) {
	n := 400
	if rest != "" {
		var err error
		if n, err = strconv.Atoi(rest); err != nil || n < 0 || n > maxBurst {
			return "", rpcErrorf(codeInvalidParams, "burst %s: N must be a number from 0 to %d", rest, maxBurst)
		}
	}
	for i := range n {
		select {
		case <-ctx.Done():
			return stopCancelled, nil
		default:
		}
		t.say("message " + strconv.Itoa(i+1) + "\n")
	}
	return stopEnd, nil
}

// crash ends the agent without an answer.
func (t *turn) crash(ctx context.Context, _ string) (string, error) {
	t.say("I am about to crash.")
	t.a.out.stop()
	t.a.end(ErrCrash)
	<-ctx.Done()
	return "", ctx.Err()
}
