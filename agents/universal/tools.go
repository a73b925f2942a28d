package universal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

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
func (s *State) tool(raw json.RawMessage) {
	var u toolUpdate
	if err := json.Unmarshal(raw, &u); err != nil || u.ID == "" || len(u.ID) > maxID {
		s.unparsed(fmt.Sprintf("the tool call is not as ACP has it, or its id has more than %d bytes", maxID))
		return
	}
	t := s.Tools[u.ID]
	fresh := t == nil
	if fresh {
		if s.Text != nil {
			s.closeText()
		}
		t = &openTool{Item: s.itemID(), Parent: s.Parent, Title: "tool"}
		if s.Tools == nil {
			s.Tools = map[string]*openTool{}
		}
		s.Tools[u.ID] = t
		s.Order = append(s.Order, u.ID)
	}
	if u.Title != nil {
		t.Title = *u.Title
	}
	if u.Kind != nil {
		t.Kind = *u.Kind
	}
	if u.Input != nil {
		t.Input = u.Input
	}
	if u.Output != nil {
		t.Output = u.Output
	}
	if u.Content != nil {
		t.Result = u.Content
	}
	for _, l := range u.Locations {
		if len(t.Places) < maxPlaces && !slices.Contains(t.Places, l.Path) {
			t.Places = append(t.Places, l.Path)
		}
	}
	s.Open -= t.Bytes
	t.Bytes = t.size(u.ID)
	s.Open += t.Bytes
	ends := u.Status == "completed" || u.Status == "failed"
	switch {
	case fresh:
		s.emit(ItemStarted, itemData{t.item(u.ID, "in_progress")}, false)
	case !ends && (u.Content != nil || u.Output != nil): // the event's raw message has it
		s.emit(ItemDelta, deltaData{t.Item, new(u.ID), ""}, false)
	}
	if ends {
		s.endTool(u.ID, u.Status, false)
	}
	for s.Open > maxOpen || len(s.Order) > maxTools { // the oldest first
		s.endTool(s.Order[0], "completed", true)
	}
}

// contentSize is the memory that a content takes without its texts.
const contentSize = 128

// size returns the size of a call in bytes.
func (t *openTool) size(id string) int {
	n := len(id) + len(t.Title) + len(t.Kind) + len(t.Input) + len(t.Output)
	for _, p := range t.Places {
		n += len(p)
	}
	for _, c := range t.Result {
		n += contentSize + len(c.Type) + len(c.Content) + len(c.Path) + len(c.NewText) + len(c.ID)
		if c.OldText != nil {
			n += len(*c.OldText)
		}
	}
	return n
}

// item returns the call as an item.
func (t *openTool) item(id, status string) Item {
	arguments := "{}"
	if t.Input != nil {
		arguments = string(t.Input)
	}
	i := Item{ID: t.Item, Native: &id, Kind: "tool_call", Role: new("assistant"), Status: status, Content: []Part{
		{Type: "tool_call", Name: new(t.Title), Arguments: &arguments, CallID: &id},
	}}
	if t.Parent != "" {
		i.Parent = new(t.Parent)
	}
	if t.Kind == "read" {
		for _, p := range t.Places {
			i.Content = append(i.Content, Part{Type: "file_ref", Path: new(p), Action: new("read")})
		}
	}
	return i
}

// endTool emits the end of a call and its result. They are synthetic if the entry is not about the
// call: many calls can end with one large entry.
func (s *State) endTool(id, status string, synthetic bool) {
	t := s.Tools[id]
	delete(s.Tools, id)
	s.Open -= t.Bytes
	s.Order = slices.DeleteFunc(s.Order, func(o string) bool { return o == id })
	call := t.item(id, status)
	s.emitOwn(ItemDelta, deltaData{call.ID, call.Native, *call.Content[0].Arguments})
	s.emit(ItemCompleted, itemData{call}, synthetic)
	output, more := t.output()
	result := Item{
		ID: s.itemID(), Native: &id, Parent: call.Parent, Kind: "tool_result", Role: new("tool"), Status: status,
		Content: append([]Part{{Type: "tool_result", CallID: &id, Output: &output}}, more...),
	}
	s.emitItem(result, output, synthetic)
}

// output returns the result of a call: its text, and the parts that are not text.
func (t *openTool) output() (text string, more []Part) {
	var texts []string
	for _, c := range t.Result {
		switch c.Type {
		case "content":
			if p := newPart(c.Content); p.Type == "text" {
				texts = append(texts, *p.Text)
			} else {
				more = append(more, p)
			}
		case "diff":
			action, old := "patch", ""
			if c.OldText == nil {
				action = "write"
			} else {
				old = *c.OldText
			}
			more = append(more, Part{Type: "file_ref", Path: new(c.Path), Action: &action, Diff: new(Diff(c.Path, old, c.NewText))})
		case "terminal":
			texts = append(texts, "terminal "+c.ID)
		default:
			if raw, err := json.Marshal(c); err == nil {
				more = append(more, Part{Type: "json", JSON: raw})
			}
		}
	}
	if len(texts) == 0 && len(more) == 0 && t.Output != nil {
		var s string
		if json.Unmarshal(t.Output, &s) != nil {
			s = string(t.Output)
		}
		return s, nil
	}
	return strings.Join(texts, "\n"), more
}

// ask applies a question of the agent.
func (s *State) ask(env envelope) {
	var p struct {
		Tool    json.RawMessage `json:"toolCall"`
		Options []struct {
			ID   string `json:"optionId"`
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	var u toolUpdate
	if json.Unmarshal(env.Params, &p) != nil || json.Unmarshal(p.Tool, &u) != nil {
		s.unparsed("the question is not as ACP has it")
		return
	}
	// Some agents ask before they announce the call.
	if u.ID != "" && s.Tools[u.ID] == nil {
		u.Status = ""
		s.tool(p.Tool)
	}
	q := openQuestion{ID: agents.QuestionID(s.entry.ID), Action: "permission", Kinds: map[string]string{}, Names: map[string]string{}, Options: []string{}}
	t := s.Tools[u.ID]
	if t != nil {
		q.Action, q.Question = cuttext.Cut(t.Title, maxAction), t.Kind == "switch_mode"
	}
	if u.Title != nil {
		q.Action = *u.Title
	}
	names := []string{}
	for i, o := range p.Options {
		if i < maxOptions {
			q.Kinds[o.ID], q.Names[o.ID] = o.Kind, o.Name
		}
		names = append(names, o.Name)
	}
	q.Options = slices.Clone(names[:min(len(names), maxOptions)])
	if !s.keepQuestion(env, q) {
		return
	}
	if q.Question {
		s.emit(QuestionAsked, questionData{ID: q.ID, Prompt: prompt(q.Action, u, t), Options: names, Status: "requested"}, false)
		return
	}
	s.emit(PermissionAsked, permissionData{q.ID, q.Action, "requested", map[string]any{"toolCall": p.Tool, "options": p.Options}}, false)
}

// keepQuestion keeps an open question. It reports false if there is no room for it.
func (s *State) keepQuestion(env envelope, q openQuestion) bool {
	key := s.key(env.ID)
	delete(s.Asked, key) // the agent uses the id again
	if len(s.Asked) >= maxAsked {
		s.unparsed(fmt.Sprintf("%d questions wait for an answer", len(s.Asked)))
		return false
	}
	q.Bytes = q.size(key)
	if size := s.askedSize() + q.Bytes; size > maxAskedSize {
		s.unparsed(fmt.Sprintf("the questions that wait for an answer would have %d bytes, and %d are allowed", size, maxAskedSize))
		return false
	}
	if s.Asked == nil {
		s.Asked = map[string]openQuestion{}
	}
	s.Asked[key] = q
	return true
}

// askForm applies a question of the agent that is a form.
func (s *State) askForm(env envelope) {
	form, err := agents.ParseForm(env.Params)
	if err != nil {
		s.unparsed(err.Error())
		return
	}
	q := openQuestion{ID: agents.QuestionID(s.entry.ID), Question: true, Action: form.Prompt(), Options: []string{}, Form: &form}
	if len(form.Questions) > 0 {
		for _, o := range form.Questions[0].Options {
			q.Options = append(q.Options, o.Label)
		}
	}
	if s.keepQuestion(env, q) {
		s.emit(QuestionAsked, questionData{ID: q.ID, Prompt: q.Action, Options: q.Options, Status: "requested", Questions: form.Questions}, false)
	}
}

// optionSize is the memory that an option takes without its texts.
const optionSize = 128

// size returns the size of a question in bytes.
func (q openQuestion) size(key string) int {
	n := len(key) + len(q.ID) + len(q.Action)
	for _, name := range q.Options {
		n += optionSize + len(name)
	}
	for id, kind := range q.Kinds {
		n += len(id) + len(kind)
	}
	if q.Form != nil {
		n += len(q.Form.Message)
		for _, f := range q.Form.Questions {
			n += optionSize + len(f.Key) + len(f.Custom) + len(f.Header) + len(f.Text)
			for _, o := range f.Options {
				n += optionSize + len(o.Value) + len(o.Label) + len(o.Description)
			}
		}
	}
	return n
}

// askedSize returns the size of all open questions in bytes.
func (s *State) askedSize() int {
	n := 0
	for _, q := range s.Asked {
		n += q.Bytes
	}
	return n
}

// prompt returns the text of a question, with the plan if there is one. The plan of the call is
// left out if it is large, because many small questions can be about one call.
func prompt(title string, u toolUpdate, t *openTool) string {
	var input struct{ Plan string }
	if json.Unmarshal(u.Input, &input) == nil && input.Plan != "" {
		return title + "\n\n" + input.Plan
	}
	if u.Content == nil && t != nil {
		if len(t.Result) > 0 && t.Bytes > maxPrompt {
			return fmt.Sprintf("%s\n\nThe tool call has %d bytes, which is too much to show. The session's log has it.", title, t.Bytes)
		}
		u.Content = t.Result
	}
	if text, _ := (&openTool{Result: u.Content}).output(); text != "" {
		return title + "\n\n" + text
	}
	return title
}

// resolve applies the answer to a question of the agent.
func (s *State) resolve(env envelope) {
	key := s.key(env.ID)
	q, ok := s.Asked[key]
	if !ok {
		return // a second answer, or no question has that id
	}
	delete(s.Asked, key)
	if q.Form != nil {
		d := questionData{ID: q.ID, Prompt: q.Action, Options: q.Options, Status: "rejected"}
		if text, accepted := q.Form.Answered(env.Result); accepted {
			d.Response, d.Status = &text, "answered"
		}
		s.emit(QuestionResolved, d, s.entry.Dir == eventlog.Daemon)
		return
	}
	var r struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	_ = json.Unmarshal(env.Result, &r) // an answer without an option rejects
	if r.Outcome.Outcome != "selected" {
		r.Outcome.OptionID = ""
	}
	s.emitAnswer(q, q.Kinds[r.Outcome.OptionID], q.Names[r.Outcome.OptionID], s.entry.Dir == eventlog.Daemon)
}

// emitAnswer emits the outcome of a question. kind and name are the kind and the name of the
// chosen option, or empty.
func (s *State) emitAnswer(q openQuestion, kind, name string, synthetic bool) {
	if q.Question {
		d := questionData{ID: q.ID, Prompt: q.Action, Options: q.Options, Status: "rejected"}
		if kind != "" {
			d.Response = &name
		}
		if strings.HasPrefix(kind, "allow_") {
			d.Status = "answered"
		}
		s.emit(QuestionResolved, d, synthetic)
		return
	}
	status := map[string]string{"allow_once": "accept", "allow_always": "accept_for_session"}[kind]
	if status == "" {
		status = "reject"
	}
	s.emit(PermissionResolved, permissionData{q.ID, q.Action, status, map[string]any{}}, synthetic)
}

// Diff returns a unified diff of a file's text with one hunk and up to three lines of context on
// each side. It returns "" if the texts are equal.
func Diff(path, before, after string) string {
	if before == after {
		return ""
	}
	a, b := lines(before), lines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, upto := max(head-3, 0), max(tail-3, 0)
	var out strings.Builder
	out.WriteString("--- " + path + "\n+++ " + path + "\n")
	out.WriteString(hunk(from, len(a)-upto-from, len(b)-upto-from))
	for _, l := range a[from:head] {
		out.WriteString(" " + l + "\n")
	}
	for _, l := range a[head : len(a)-tail] {
		out.WriteString("-" + l + "\n")
	}
	for _, l := range b[head : len(b)-tail] {
		out.WriteString("+" + l + "\n")
	}
	for _, l := range a[len(a)-tail : len(a)-upto] {
		out.WriteString(" " + l + "\n")
	}
	return out.String()
}

// hunk returns the header of a hunk. A side without lines has the number of the line before it.
func hunk(from, before, after int) string {
	side := func(n int) string {
		first := from + 1
		if n == 0 {
			first = from
		}
		return fmt.Sprintf("%d,%d", first, n)
	}
	return "@@ -" + side(before) + " +" + side(after) + " @@\n"
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
