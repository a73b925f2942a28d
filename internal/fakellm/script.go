package fakellm

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// tool is a tool that a request offers.
type tool struct {
	name     string
	space    string // OpenAI's namespace
	custom   bool   // it takes text, not JSON
	computer bool   // OpenAI's tool, which has a form of its own
}

// conversation is the content of a request of any API.
type conversation struct {
	tools  []tool
	every  bool   // every tool is offered
	script string // the latest text of the user with a script
	calls  int    // with a result after the script
	result string // of the latest call
	images int    // in the results after the script
}

// addText adds a text of the user.
func (c *conversation) addText(text string) {
	if strings.HasPrefix(text, "@") || strings.Contains(text, "\n@") {
		c.script, c.calls, c.result, c.images = text, 0, "", 0
	}
}

// addResult adds the result of a call.
func (c *conversation) addResult(text string, images int) {
	c.calls++
	c.images += images
	c.result = text
}

// offered finds the first of the names, each of which may end in "*".
func (c *conversation) offered(names string) (tool, bool) {
	if c.every {
		return tool{name: names}, true
	}
	for want := range strings.SplitSeq(names, "|") {
		prefix, open := strings.CutSuffix(want, "*")
		for _, t := range c.tools {
			if t.name == want || open && strings.HasPrefix(t.name, prefix) {
				return t, true
			}
		}
	}
	return tool{}, false
}

// part is one part of an answer.
type part struct {
	kind string // "say", "think", "call"
	text string // the text, or the call's arguments
	tool tool
}

// answer is the model's answer to a request.
type answer struct {
	parts   []part
	called  bool
	status  int // of an error; zero: none
	problem string
}

// answer returns the part of the script that answers the last request.
func (c *conversation) answer(ctx context.Context) answer {
	var out answer
	calls := 0
	for line := range strings.Lines(c.script) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		now := calls == c.calls
		switch {
		case verb == "@call":
			name, arguments, _ := strings.Cut(rest, " ")
			t, ok := c.offered(name)
			if !ok {
				continue // for example in a request for a title
			}
			if calls++; now {
				out.parts, out.called = append(out.parts, part{"call", object(arguments), t}), true
				return out
			}
		case !now:
		case verb == "@say", verb == "@think":
			out.parts = append(out.parts, part{kind: verb[1:], text: c.fill(rest)})
		case verb == "@wait":
			wait(ctx, rest)
		case verb == "@fail":
			status, problem, _ := strings.Cut(rest, " ")
			out.status, _ = strconv.Atoi(status)
			out.problem = problem
			return out
		}
	}
	if len(out.parts) == 0 {
		out.parts = []part{{kind: "say", text: "Done."}}
	}
	return out
}

func (c *conversation) fill(text string) string {
	names := make([]string, len(c.tools))
	for i, t := range c.tools {
		names[i] = t.name
	}
	return strings.NewReplacer("{result}", c.result, "{images}", strconv.Itoa(c.images), "{tools}", strings.Join(names, ",")).Replace(text)
}

func object(arguments string) string {
	if arguments = strings.TrimSpace(arguments); arguments == "" {
		return "{}"
	}
	return arguments
}

func wait(ctx context.Context, ms string) {
	n, err := strconv.Atoi(ms)
	if err != nil {
		return
	}
	select {
	case <-time.After(time.Duration(n) * time.Millisecond):
	case <-ctx.Done():
	}
}

// block is a part of a message: text, an image or a result.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
}

// blocksOf decodes content: a text or a list of blocks.
func blocksOf(raw json.RawMessage) []block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var out []block
	if json.Unmarshal(raw, &out) != nil { // OpenAI's screenshot is one block
		out = make([]block, 1)
		_ = json.Unmarshal(raw, &out[0]) // other content has no blocks
	}
	return out
}

// resultOf returns the text of a result and the number of its images.
func resultOf(raw json.RawMessage) (text string, images int) {
	var b strings.Builder
	for _, each := range blocksOf(raw) {
		b.WriteString(each.Text)
		if strings.Contains(each.Type, "image") || each.Type == "computer_screenshot" {
			images++
		}
	}
	return b.String(), images
}
