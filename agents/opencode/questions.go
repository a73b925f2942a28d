package opencode

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// asked is an open question of the agent.
type asked struct {
	bytes      int // of the request and of the question as clients read it
	permission *Permission
	question   *Question
	kinds      map[string]string // of the options, by their ids
	names      map[string]string
	form       *agents.Form // nil: it is not a form
}

// askedParams are the params of session/request_permission.
type askedParams struct {
	Tool    json.RawMessage `json:"toolCall"`
	Options []agents.Option `json:"options"`
}

// ask applies a question of the agent.
func (t *Transcript) ask(env envelope) {
	var p askedParams
	if json.Unmarshal(env.Params, &p) == nil && t.entry.Kind == "session/request_permission" {
		var call struct {
			ID string `json:"toolCallId"`
		}
		if json.Unmarshal(p.Tool, &call) == nil && call.ID != "" {
			t.tool(p.Tool) // it may change the call, and some agents ask before they announce it
		}
	}
	if len(t.asked) >= maxAsked || t.askedAll+len(t.entry.Payload) > maxAskedAll {
		return
	}
	q := t.question(agents.QuestionID(t.entry.ID), t.entry.Kind, env.Params)
	size := len(t.entry.Payload) + q.size()
	if t.askedAll+size > maxAskedAll {
		return
	}
	switch {
	case q.permission != nil:
		t.emit("permission.asked", q.permission)
		t.emit("permission.updated", olderPermission(t, q.permission))
	case q.question != nil:
		t.emit("question.asked", q.question)
	default:
		return
	}
	q.bytes = size
	t.askedAll += size - t.asked[t.key(env.ID)].bytes
	t.asked[t.key(env.ID)] = q
}

// size returns how many bytes the question has as clients read it.
func (q asked) size() int {
	var v any = q.question
	if q.permission != nil {
		v = q.permission
	}
	text, _ := json.Marshal(v) // all members can be encoded
	return len(text)
}

// olderPermission returns a question for permission as clients before version 1.1 read it.
func olderPermission(t *Transcript, p *Permission) OlderPermission {
	older := OlderPermission{
		ID: p.ID, Type: p.Permission, Pattern: p.Patterns, Session: p.Session, Title: p.Permission, Metadata: p.Metadata, Time: MessageTime{Created: t.now()},
	}
	if title, ok := p.Metadata["title"].(string); ok && title != "" {
		older.Title = title
	}
	if p.Tool != nil {
		older.Message, older.Call = p.Tool.Message, p.Tool.Call
	}
	return older
}

// question returns a question of the agent. It is empty if it is neither a permission nor a
// question.
func (t *Transcript) question(id, method string, params json.RawMessage) asked {
	var p askedParams
	var u toolUpdate
	if method == agents.MethodForm {
		return formOf(t.session, id, params)
	}
	if json.Unmarshal(params, &p) != nil || method != "session/request_permission" {
		return asked{}
	}
	_ = json.Unmarshal(p.Tool, &u) // a question need not be about a call
	q := asked{kinds: map[string]string{}, names: map[string]string{}}
	always, options := false, []Option{}
	for _, o := range p.Options[:min(len(p.Options), agents.MaxOptions)] {
		q.kinds[o.ID], q.names[o.ID] = o.Kind, o.Name
		always = always || o.Kind == agents.AllowAlways
		options = append(options, Option{Label: o.Name})
	}
	r, ref := t.results[u.ID], (*CallRef)(nil)
	if part := t.calls[u.ID]; part != nil {
		ref = &CallRef{part.Message, part.Call}
	}
	if r == nil {
		r = &result{}
		r.apply(u)
	}
	r = r.shown()
	if r.kind == "switch_mode" {
		text, _ := r.text()
		if text == "" {
			var in struct{ Plan string }
			_ = json.Unmarshal(r.input, &in) // another input has no plan
			text = in.Plan
		}
		if text != "" {
			text = "\n\n" + text
		}
		q.question = &Question{ID: id, Session: t.session, Tool: ref, Questions: []QuestionInfo{{Question: r.title + text, Header: "Plan", Options: options}}}
		return q
	}
	q.permission = &Permission{
		ID: id, Session: t.session, Permission: r.tool(), Patterns: r.patterns(), Metadata: r.metadata(), Always: []string{}, Tool: ref,
	}
	q.permission.Metadata["title"] = r.title
	q.permission.Metadata["input"] = r.normalInput()
	if len(r.places) > 0 {
		q.permission.Metadata["filepath"] = r.places[0]
	}
	if d := r.diff(); d != nil {
		q.permission.Metadata["filepath"] = d.Path
	}
	if always {
		q.permission.Always = q.permission.Patterns
	}
	return q
}

// formOf returns a form of the agent as a question, or nothing if it is not understood.
func formOf(session, id string, params json.RawMessage) asked {
	form, err := agents.ParseForm(params)
	if err != nil {
		return asked{}
	}
	q := &Question{ID: id, Session: session, Questions: []QuestionInfo{}}
	for i, one := range form.Questions {
		text := cmp.Or(one.Text, one.Header, one.Key)
		if i == 0 { // the others do not repeat the message
			text = cmp.Or(one.Text, form.Message)
		}
		info := QuestionInfo{
			Question: text, Header: one.Header, Options: []Option{}, Multiple: one.Multiple,
			Custom: one.Custom != "" || len(one.Options) == 0,
		}
		for _, o := range one.Options {
			info.Options = append(info.Options, Option{o.Label, o.Description})
		}
		q.Questions = append(q.Questions, info)
	}
	return asked{question: q, form: &form}
}

// shown returns what a question shows of a call. The input and the content of a large call are left
// out, because many small questions can be about one call.
func (r *result) shown() *result {
	n := r.size()
	if n <= maxShown {
		return r
	}
	s := &result{kind: r.kind, title: r.title, places: r.places}
	if d := r.diff(); d != nil && len(s.places) == 0 {
		s.places = []string{cuttext.Cut(d.Path, maxPath)}
	}
	s.input, _ = json.Marshal(object{"input": leftOut("tool call", n)})
	s.body = []content{{Type: "content", Content: block{Type: "text", Text: leftOut("tool call", n)}}}
	return s
}

// patterns returns what a call is about: its command, its files, or its title.
func (r *result) patterns() []string {
	var in struct{ Command, URL string }
	_ = json.Unmarshal(r.normalInput(), &in) // missing members are empty
	switch {
	case in.Command != "":
		return []string{in.Command}
	case in.URL != "":
		return []string{in.URL}
	case len(r.places) > 0:
		return r.places
	case r.diff() != nil:
		return []string{r.diff().Path}
	case r.title != "":
		return []string{r.title}
	}
	return []string{"*"}
}

// answer applies the answer to a question.
func (t *Transcript) answer(env envelope) {
	key := t.key(env.ID)
	q, ok := t.asked[key]
	if !ok {
		return
	}
	delete(t.asked, key)
	t.askedAll -= q.bytes
	if q.form != nil {
		if text, accepted := q.form.Answered(env.Result); accepted {
			answers := [][]string{}
			for _, one := range strings.Split(text, "\n") {
				answers = append(answers, []string{one})
			}
			t.emit("question.replied", object{"sessionID": t.session, "requestID": q.question.ID, "answers": answers})
		} else {
			emitReply(t, q, "", "")
		}
		return
	}
	var r struct {
		Outcome struct{ Outcome, OptionID string }
	}
	_ = json.Unmarshal(env.Result, &r) // an answer without an option rejects
	option := r.Outcome.OptionID
	if r.Outcome.Outcome != "selected" {
		option = ""
	}
	emitReply(t, q, q.kinds[option], q.names[option])
}

// emitReply emits the answer to a question.
func emitReply(t *Transcript, q asked, kind, name string) {
	if q.question != nil {
		if kind == agents.AllowOnce || kind == agents.AllowAlways {
			t.emit("question.replied", object{"sessionID": t.session, "requestID": q.question.ID, "answers": [][]string{{name}}})
			return
		}
		t.emit("question.rejected", object{"sessionID": t.session, "requestID": q.question.ID})
		return
	}
	reply := map[string]string{agents.AllowOnce: "once", agents.AllowAlways: "always"}[kind]
	if reply == "" {
		reply = "reject"
	}
	t.emit("permission.replied", object{"sessionID": t.session, "requestID": q.permission.ID, "reply": reply, "permissionID": q.permission.ID, "response": reply})
}

// rejectAll rejects the open questions.
func rejectAll(t *Transcript) {
	for _, key := range slices.Sorted(maps.Keys(t.asked)) {
		emitReply(t, t.asked[key], "", "")
	}
	clear(t.asked)
	t.askedAll = 0
}

// Open returns the open questions for permission, and the other open questions.
func (t *Transcript) Open() (permissions []Permission, questions []Question) {
	for _, key := range slices.Sorted(maps.Keys(t.asked)) {
		if q := t.asked[key]; q.permission != nil {
			permissions = append(permissions, *q.permission)
		} else {
			questions = append(questions, *q.question)
		}
	}
	return permissions, questions
}
