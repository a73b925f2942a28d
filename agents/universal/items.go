package universal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// block is a piece of content, as ACP has it.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
	Resource *struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
	} `json:"resource"`
}

// content is an element of a tool call's content.
type content struct {
	Type    string          `json:"type"` // content, diff, terminal
	Content json.RawMessage `json:"content,omitempty"`
	Path    string          `json:"path,omitempty"`
	OldText *string         `json:"oldText,omitempty"`
	NewText string          `json:"newText,omitempty"`
	ID      string          `json:"terminalId,omitempty"`
}

// newPart converts a content block to a part of an item.
func newPart(raw json.RawMessage) Part {
	var b block
	if err := json.Unmarshal(raw, &b); err != nil {
		return Part{Type: "json", JSON: raw}
	}
	switch b.Type {
	case "text":
		return Part{Type: "text", Text: &b.Text}
	case "image":
		path := b.URI
		if b.Data != "" {
			path = "data:" + b.MimeType + ";base64," + b.Data
		}
		p := Part{Type: "image", Path: &path}
		if b.MimeType != "" {
			p.Mime = &b.MimeType
		}
		return p
	case "resource_link":
		return Part{Type: "file_ref", Path: new(strings.TrimPrefix(b.URI, "file://")), Action: new("read")}
	case "resource":
		if b.Resource != nil && b.Resource.Text != "" {
			return Part{Type: "text", Text: &b.Resource.Text}
		}
	}
	return Part{Type: "json", JSON: raw}
}

func (s *State) itemID() string {
	s.Items++
	return "itm_" + strconv.Itoa(s.Items)
}

// emitItem emits all events of an item. An empty text has no delta. The item is synthetic if it
// does not have the content of the entry.
func (s *State) emitItem(i Item, text string, synthetic bool) {
	full, status := i.Content, i.Status
	i.Content, i.Status = []Part{}, "in_progress"
	s.emitOwn(ItemStarted, itemData{i})
	if text != "" {
		s.emitOwn(ItemDelta, deltaData{i.ID, i.Native, text})
	}
	i.Content, i.Status = full, status
	s.emit(ItemCompleted, itemData{i}, synthetic)
}

// beginTurn applies a prompt.
func (s *State) beginTurn(env envelope) {
	var p struct {
		Prompt []json.RawMessage `json:"prompt"`
	}
	if err := json.Unmarshal(env.Params, &p); err != nil {
		s.unparsed(err.Error())
		return
	}
	s.closeText()
	t := openTurn{s.key(env.ID), fmt.Sprintf("turn_%d", s.entry.Seq)}
	s.Turns = append(s.Turns, t)
	s.emitOwn(TurnStarted, turnData{Phase: "started", ID: t.ID})
	i := Item{ID: s.itemID(), Kind: "message", Role: new("user"), Content: []Part{}, Status: "completed"}
	var texts []string
	for _, raw := range p.Prompt {
		b := newPart(raw)
		i.Content = append(i.Content, b)
		if b.Type == "text" {
			texts = append(texts, *b.Text)
		}
	}
	s.Parent = i.ID
	s.emitItem(i, strings.Join(texts, "\n"), s.entry.Dir != eventlog.Agent)
}

// key returns a key of a request that is unique among all processes.
func (s *State) key(id json.RawMessage) string { return s.entry.Process + " " + string(id) }

// endTurn applies the response to a prompt.
func (s *State) endTurn(env envelope) {
	key := s.key(env.ID)
	at := slices.IndexFunc(s.Turns, func(t openTurn) bool { return t.Key == key })
	if at < 0 {
		return // the end of the process has ended the turn
	}
	metadata := map[string]any{"stopReason": "error"}
	status := "completed"
	if env.Error != nil {
		status = "failed"
	}
	if at == 0 {
		s.closeAll(status)
	}
	if env.Error != nil {
		s.fail(env.Error.Message, strconv.Itoa(env.Error.Code), env.Error.Data)
	} else if err := json.Unmarshal(env.Result, &metadata); err != nil {
		metadata = map[string]any{"stopReason": "end_turn"}
	}
	s.emit(TurnEnded, turnData{Phase: "ended", ID: s.Turns[at].ID, Metadata: metadata}, s.entry.Dir != eventlog.Agent)
	s.Turns = slices.Delete(s.Turns, at, at+1)
}

// update applies a session/update.
func (s *State) update(env envelope) {
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u struct {
		Kind string `json:"sessionUpdate"`
	}
	if json.Unmarshal(env.Params, &p) != nil || json.Unmarshal(p.Update, &u) != nil {
		s.unparsed("it is not an update as ACP has it")
		return
	}
	if isChunk(u.Kind) {
		s.chunk(u.Kind, p.Update)
		return
	}
	switch u.Kind {
	case "tool_call", "tool_call_update":
		s.tool(p.Update)
	case "plan", "available_commands_update", "current_mode_update", "config_option_update", "session_info_update", "usage_update":
		s.status(u.Kind, p.Update)
	default:
		s.unparsed(fmt.Sprintf("there is no universal item for an update of kind %q", u.Kind))
	}
}

// textChunk applies a chunk of text. Most entries are such chunks, so it parses them in one
// pass. It returns false for any other entry.
func (s *State) textChunk(payload []byte) bool {
	var env struct {
		Error  *rpcError `json:"error"`
		Params struct {
			Update struct {
				Kind    string `json:"sessionUpdate"`
				Content *block `json:"content"`
			} `json:"update"`
		} `json:"params"`
	}
	if json.Unmarshal(payload, &env) != nil {
		return false
	}
	u := &env.Params.Update
	if !isChunk(u.Kind) || u.Content == nil || u.Content.Type != "text" {
		return false
	}
	s.openText(u.Kind)
	s.appendText(u.Content.Text)
	return true
}

// isChunk reports whether an update is a piece of a message or a thought.
func isChunk(kind string) bool {
	return kind == "agent_message_chunk" || kind == "agent_thought_chunk" || kind == "user_message_chunk"
}

// openText begins a message or a thought unless one of that kind is open.
func (s *State) openText(kind string) {
	if s.Text != nil && s.Text.Update == kind {
		return
	}
	s.closeText()
	role := "assistant"
	if kind == "user_message_chunk" {
		role = "user"
	}
	s.Text = &openItem{Item: Item{ID: s.itemID(), Kind: "message", Role: &role, Content: []Part{}, Status: "in_progress"}, Update: kind}
	if kind == "agent_message_chunk" {
		s.Parent = s.Text.ID
	}
	s.emitOwn(ItemStarted, itemData{s.Text.Item})
}

// appendText adds text to the open message or thought.
func (s *State) appendText(text string) {
	if len(s.Text.Pending) >= maxPending {
		s.Text.joinPending()
	}
	s.Text.Pending = append(s.Text.Pending, text)
	s.emit(ItemDelta, deltaData{s.Text.ID, nil, text}, false)
	s.boundText(len(text))
}

// boundText counts the bytes of a message, and ends a long message.
func (s *State) boundText(bytes int) {
	if s.Text.Bytes += bytes; s.Text.Bytes > maxText {
		s.closeText()
	}
}

// chunk applies a chunk of a message or a thought.
func (s *State) chunk(kind string, raw json.RawMessage) {
	var u struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &u) != nil || u.Content == nil {
		s.unparsed("the chunk has no content")
		return
	}
	s.openText(kind)
	b := newPart(u.Content)
	if b.Type == "text" { // the text of a resource
		s.appendText(*b.Text)
		return
	}
	s.Text.joinText()
	s.Text.Content = append(s.Text.Content, b)
	s.emit(ItemDelta, deltaData{s.Text.ID, nil, ""}, false)
	s.boundText(partSize + len(u.Content))
}

// partSize is at least the memory that a part takes without its texts.
const partSize = 256

// joinPending joins the pending chunks.
func (o *openItem) joinPending() {
	if len(o.Pending) > 1 {
		o.Pending = []string{strings.Join(o.Pending, "")}
	}
}

// joinText makes a part of the pending chunks of text.
func (o *openItem) joinText() {
	if len(o.Pending) == 0 {
		return
	}
	p := Part{Type: "text", Text: new(strings.Join(o.Pending, ""))}
	if o.Update == "agent_thought_chunk" {
		p.Type, p.Visibility = "reasoning", new("public")
	}
	o.Content, o.Pending = append(o.Content, p), nil
	o.Bytes += partSize
}

// closeText ends the open message or thought.
func (s *State) closeText() {
	if s.Text == nil {
		return
	}
	s.Text.joinText()
	i := s.Text.Item
	i.Status = "completed"
	s.Text = nil
	s.emitOwn(ItemCompleted, itemData{i})
}

// closeAll ends the open message or thought and all open tool calls, which get that status.
func (s *State) closeAll(status string) {
	s.closeText()
	for _, id := range slices.Clone(s.Order) {
		s.endTool(id, status, true)
	}
}

// status emits an item for an update that is not part of the conversation.
func (s *State) status(kind string, raw json.RawMessage) {
	s.closeText()
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // it was parsed before
	delete(members, "sessionUpdate")
	detail, err := json.Marshal(members)
	if err != nil {
		detail = raw
	}
	label := strings.ReplaceAll(strings.TrimSuffix(kind, "_update"), "_", " ")
	s.emitItem(Item{
		ID: s.itemID(), Kind: "status", Role: new("system"), Status: "completed",
		Content: []Part{{Type: "status", Label: &label, Detail: new(string(detail))}, {Type: "json", JSON: detail}},
	}, label, false)
}
