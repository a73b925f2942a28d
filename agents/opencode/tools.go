package opencode

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// result is what the updates of a tool call reported and its part does not have.
type result struct {
	kind   string
	title  string
	input  json.RawMessage
	output json.RawMessage
	body   []content
	places []string
}

// content is an element of a tool call's content.
type content struct {
	Type     string  `json:"type"` // content, diff, terminal
	Content  block   `json:"content"`
	Path     string  `json:"path"`
	OldText  *string `json:"oldText"`
	NewText  string  `json:"newText"`
	Terminal string  `json:"terminalId"`
}

// toolUpdate is a tool call, or a change of a tool call. Missing members stay unchanged.
type toolUpdate struct {
	ID        string          `json:"toolCallId"`
	Title     *string         `json:"title"`
	Kind      *string         `json:"kind"`
	Status    string          `json:"status"`
	Content   []content       `json:"content"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
}

// tool applies an update of a tool call.
func (t *Transcript) tool(raw json.RawMessage) {
	var u toolUpdate
	turn := t.running()
	if json.Unmarshal(raw, &u) != nil || u.ID == "" || len(u.ID) > maxName || turn == nil {
		return
	}
	p, r := t.calls[u.ID], t.results[u.ID]
	if p == nil {
		closeText(t, turn)
		p = t.addPart(turn.reply, "tool")
		p.Call, r = u.ID, &result{}
		p.State = &CallState{Status: "pending", Time: &PartTime{Start: t.now()}}
		t.calls[u.ID], t.results[u.ID] = p, r
	}
	r.apply(u)
	if len(raw)*maxGrowth < p.bytes && !p.turnsInto(u.Status) {
		return
	}
	ended := p.ended()
	p.Tool = r.tool()
	switch status := cmp.Or(u.Status, "pending"); {
	case status == "completed", status == "failed":
		t.endCall(turn, p, r, status == "failed")
	case ended:
		t.endCall(turn, p, r, p.State.Status == "error") // the agent adds to a call that has ended
	case status == "in_progress" || p.State.Status == "running":
		p.State = &CallState{Status: "running", Input: r.normalInput(), Title: new(r.title), Metadata: r.metadata(), Time: &PartTime{Start: p.State.Time.Start}}
	default:
		p.State = &CallState{Status: "pending", Input: r.normalInput(), Raw: new(string), Time: p.State.Time}
	}
	t.measure(p, r)
	t.emitPart(p)
}

// ended reports whether the part is a tool call that has ended.
func (p *Part) ended() bool { return p.State.Status == "completed" || p.State.Status == "error" }

// turnsInto reports whether an update with a status begins or ends the tool call.
func (p *Part) turnsInto(status string) bool {
	switch status {
	case "completed", "failed":
		return !p.ended()
	case "in_progress":
		return p.State.Status == "pending"
	}
	return false
}

// apply takes the members of an update. Members that are too large are left out.
func (r *result) apply(u toolUpdate) {
	if u.Title != nil {
		r.title = cuttext.Cut(*u.Title, maxTitle)
	}
	if u.Kind != nil {
		r.kind = cuttext.Cut(*u.Kind, maxName)
	}
	if len(u.Input) > 0 && string(u.Input) != "null" {
		if r.input = u.Input; len(r.input) > maxInput {
			r.input, _ = json.Marshal(object{"input": leftOut("input", len(u.Input))})
		}
	}
	if len(u.Output) > 0 && string(u.Output) != "null" {
		if r.output = u.Output; len(r.output) > maxContent {
			r.output, _ = json.Marshal(leftOut("output", len(u.Output)))
		}
	}
	if u.Content != nil {
		if r.body = u.Content; sizeOf(r.body) > maxContent {
			r.body = []content{{Type: "content", Content: block{Type: "text", Text: leftOut("content", sizeOf(u.Content))}}}
		}
	}
	for _, l := range u.Locations {
		if len(r.places) < maxPlaces && len(l.Path) <= maxPath && !slices.Contains(r.places, l.Path) {
			r.places = append(r.places, l.Path)
		}
	}
}

// endCall ends a tool call.
func (t *Transcript) endCall(turn *turn, p *Part, r *result, failed bool) {
	output, files := r.text()
	s := &CallState{Input: r.normalInput(), Metadata: r.metadata(), Time: &PartTime{p.State.Time.Start, t.now()}}
	if failed {
		s.Status, s.Error = "error", new(cmp.Or(output, "The tool call failed."))
	} else {
		s.Status, s.Output, s.Title = "completed", &output, new(r.title)
		for _, b := range files {
			f := &Part{ID: t.ids.next("prt", t.entry.At), Session: t.session, Message: p.Message, Type: "file"}
			b.fill(f)
			s.Attachments = append(s.Attachments, f)
		}
		for _, c := range r.body {
			if c.Type == "diff" {
				t.changed(turn, c)
			}
		}
	}
	p.State = s
	t.measure(p, r)
}

// endCalls ends the tool calls that run, at the end of their turn.
func endCalls(t *Transcript, turn *turn) {
	for _, p := range turn.reply.Parts {
		if p.Type == "tool" && t.calls[p.Call] == p && (p.State.Status == "pending" || p.State.Status == "running") {
			r := t.results[p.Call]
			if len(r.body) == 0 && len(r.output) == 0 {
				r.output, _ = json.Marshal("The turn ended before the tool call did.")
			}
			t.endCall(turn, p, r, true)
			t.emitPart(p)
		}
	}
}

// changed records that a tool call changed a file.
func (t *Transcript) changed(turn *turn, c content) {
	if !t.files.record(c) {
		return
	}
	if !slices.Contains(turn.files, c.Path) {
		turn.files = append(turn.files, c.Path)
	}
	t.emit("file.edited", object{"file": c.Path})
}

// text returns the output of a call as text, and the blocks that are not text as files.
func (r *result) text() (text string, files []block) {
	var texts []string
	for _, c := range r.body {
		switch {
		case c.Type == "diff":
			texts = append(texts, "changed "+c.Path)
		case c.Type == "terminal":
			texts = append(texts, "terminal "+c.Terminal)
		case c.Content.Type == "text":
			texts = append(texts, c.Content.Text)
		case c.Content.Type == "resource" && c.Content.Resource.Text != "":
			texts = append(texts, c.Content.Resource.Text)
		default:
			files = append(files, c.Content)
		}
	}
	if len(r.body) == 0 && r.output != nil {
		var s string
		if json.Unmarshal(r.output, &s) != nil {
			s = string(r.output)
		}
		return s, nil
	}
	text = strings.Join(texts, "\n")
	if r.kind == "execute" {
		text = unfenced(text)
	}
	return text, files
}

// unfenced returns the text in a fence of Markdown, in which some agents put the output of a
// command. Other text stays.
func unfenced(text string) string {
	const fence = "```"
	inside, ended := strings.CutSuffix(strings.TrimSuffix(text, "\n"), "\n"+fence)
	first, rest, _ := strings.Cut(inside, "\n")
	if ended && strings.HasPrefix(first, fence) && !strings.Contains(first[len(fence):], "`") && !strings.Contains(rest, "\n"+fence) {
		return rest
	}
	return text
}

// diff returns the first change of a file, or nil.
func (r *result) diff() *content {
	for i := range r.body {
		if r.body[i].Type == "diff" {
			return &r.body[i]
		}
	}
	return nil
}

// tool returns the name of the tool: OpenCode's name for a kind of tool that it has.
func (r *result) tool() string {
	switch r.kind {
	case "execute":
		return "bash"
	case "read":
		return "read"
	case "edit", "delete", "move":
		if d := r.diff(); d != nil && d.OldText == nil {
			return "write"
		}
		return "edit"
	case "search":
		return "grep"
	case "fetch":
		return "webfetch"
	}
	if r.title != "" && !strings.ContainsAny(r.title, " \n\t") {
		return r.title
	}
	return cmp.Or(r.kind, "tool")
}

// normalInput returns the input with the members that OpenCode's clients show, if the agent's
// tool has other names for them.
func (r *result) normalInput() json.RawMessage {
	in := map[string]any{}
	if json.Unmarshal(r.input, &in) != nil && len(r.input) > 0 {
		in = map[string]any{"input": r.input}
	}
	set := func(name string, values ...any) {
		for _, v := range values {
			if text, ok := v.(string); ok && text != "" && in[name] == nil {
				in[name] = text
			}
		}
	}
	path := ""
	if len(r.places) > 0 {
		path = r.places[0]
	}
	switch r.tool() {
	case "bash":
		if list, ok := in["command"].([]any); ok {
			var words []string
			for _, w := range list {
				if word, ok := w.(string); ok {
					words = append(words, word)
				}
			}
			in["command"] = strings.Join(words, " ")
		}
		set("command", in["cmd"], r.title)
		set("description", r.title)
	case "edit", "write":
		if d := r.diff(); d != nil {
			set("filePath", d.Path)
			set("content", d.NewText)
			set("newString", d.NewText)
			if d.OldText != nil {
				set("oldString", *d.OldText)
			}
		}
		set("filePath", in["file_path"], in["path"], path)
	case "read":
		set("filePath", in["file_path"], in["path"], path)
	case "grep":
		set("pattern", in["query"], r.title)
	case "webfetch":
		set("url", r.title)
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// metadata returns what OpenCode's clients show of a call beside its input and output.
func (r *result) metadata() map[string]any {
	m := map[string]any{}
	if r.tool() == "bash" {
		m["output"], _ = r.text()
	}
	if d := r.diff(); d != nil {
		before := ""
		if d.OldText != nil {
			before = *d.OldText
		}
		patch := universal.Diff(d.Path, before, d.NewText)
		added, deleted := countLines(patch)
		m["diff"] = patch
		m["filediff"] = FileDiff{File: d.Path, Before: before, After: d.NewText, Patch: patch, Additions: added, Deletions: deleted, Status: "modified"}
	}
	return m
}
