package opencode

import (
	"encoding/json"
	"slices"
	"strconv"
)

// KindShell is the kind of the entries that record a command which the user ran in a session:
// one when it begins and one when it ends.
const KindShell = "opencode/shell"

// Shell is a command that the user ran in a session. It is the params of an entry of KindShell.
type Shell struct {
	ID      string `json:"id"` // the same at the beginning and at the end
	Command string `json:"command"`
	Ended   bool   `json:"ended,omitempty"`
	Output  string `json:"output,omitempty"`
	Code    int    `json:"exitCode,omitempty"`
	Failure string `json:"failure,omitempty"` // why it did not run to its end
	Chosen
}

// shell applies the beginning or the end of a command of the user.
func (t *Transcript) shell(env envelope) {
	var s Shell
	if json.Unmarshal(env.Params, &s) != nil {
		return
	}
	if p := t.shells[s.ID]; s.Ended && p != nil {
		delete(t.shells, s.ID)
		endShell(t, s, p)
		return
	}
	if s.Ended {
		return
	}
	if s.Session != "" && s.Session != t.session {
		s.Message = "" // the session is a fork
	}
	user := t.addMessage(s.Message, "user")
	user.Info.Model = &ModelRef{Provider: t.provider, Model: t.model}
	p := t.addPart(user, "text")
	p.Text, p.Synthetic = new("The following tool was executed by the user"), true
	t.emitInfo(user)
	t.emitPart(p)
	m := t.addMessage("", "assistant")
	m.Info.Mode, m.Info.Parent, m.Info.ModelID, m.Info.Provider = t.mode, user.Info.ID, t.model, t.provider
	m.Info.Path, m.Info.Cost, m.Info.Tokens = &Path{t.cwd, t.root}, new(float64), &Tokens{}
	t.emitInfo(m)
	call := t.addPart(m, "tool")
	call.Call, call.Tool = s.ID, "bash"
	input, _ := json.Marshal(map[string]string{"command": s.Command, "description": ""})
	call.State = &CallState{Status: "running", Input: input, Metadata: object{"output": ""}, Time: &PartTime{Start: t.now()}}
	t.emitPart(call)
	t.shells[s.ID] = call
}

// Shell returns the message with a command of the user, or nil if there is none with that id.
func (t *Transcript) Shell(id string) *Message {
	for _, m := range slices.Backward(t.messages) {
		if slices.ContainsFunc(m.Parts, func(p *Part) bool { return p.Call == id }) {
			return m
		}
	}
	return nil
}

func endShell(t *Transcript, s Shell, p *Part) {
	m := t.byID[p.Message]
	p.State = &CallState{
		Status: "completed", Input: p.State.Input, Output: &s.Output, Title: new(string), Metadata: object{"output": s.Output, "exit": s.Code},
		Time: &PartTime{p.State.Time.Start, t.now()},
	}
	if s.Failure != "" {
		p.State = &CallState{Status: "error", Input: p.State.Input, Error: &s.Failure, Metadata: object{"output": s.Output}, Time: p.State.Time}
	}
	t.measure(p, nil)
	t.emitPart(p)
	m.Info.Time.Completed, m.Info.Finish = t.now(), "exit "+strconv.Itoa(s.Code)
	if s.Code == 0 {
		m.Info.Finish = "stop"
	}
	t.emitInfo(m)
	if len(t.turns) == 0 {
		t.emit("session.idle", object{"sessionID": t.session})
	}
}
