package opencode

import (
	"path"
	"strings"
)

// Meta is _meta of a content block.
type Meta struct {
	Chosen *Chosen `json:"deskhand/opencode,omitempty"`
}

// Chosen is what a client of OpenCode chose for a prompt. It is in _meta of the content blocks
// of a prompt.
type Chosen struct {
	Session string `json:"sessionID,omitempty"` // that the prompt was for; a fork of it has other ids
	Message string `json:"messageID,omitempty"`
	Part    string `json:"partID,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"modelID,omitempty"`
	Variant string `json:"variant,omitempty"`
	System  string `json:"system,omitempty"`
}

// block is a content block, as ACP has it.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	Mime     string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI  string `json:"uri"`
		Mime string `json:"mimeType"`
		Text string `json:"text"`
		Blob string `json:"blob"`
	} `json:"resource"`
}

// promptBlock is a content block of a prompt.
type promptBlock struct {
	block
	Meta Meta `json:"_meta"`
}

// text returns the text of a block.
func (b block) text() string {
	if b.Type == "resource" {
		return b.Resource.Text
	}
	return b.Text
}

// part adds the block to a message.
func (b block) part(t *Transcript, m *Message) *Part {
	if b.Type == "text" {
		p := t.addPart(m, "text")
		p.Text = &b.Text
		t.resize(p, p.bytes+len(b.Text))
		return p
	}
	p := t.addPart(m, "file")
	b.fill(p)
	t.resize(p, p.bytes+len(p.URL)+len(p.Filename)+len(p.Mime))
	return p
}

// fill makes a file of a part.
func (b block) fill(p *Part) {
	uri, mime, data := b.URI, b.Mime, b.Data
	if b.Type == "resource" {
		uri, mime, data = b.Resource.URI, b.Resource.Mime, b.Resource.Blob
	}
	p.Mime, p.Filename, p.URL = mime, b.Name, uri
	if mime == "" {
		p.Mime = "application/octet-stream"
		if b.Resource.Text != "" || b.Type == "resource_link" {
			p.Mime = "text/plain"
		}
	}
	if data != "" {
		p.URL = "data:" + p.Mime + ";base64," + data
	}
	if p.Filename == "" && !strings.HasPrefix(uri, "data:") && uri != "" {
		p.Filename = path.Base(uri)
	}
}

// chunk applies a piece of a message or of a thought.
func (t *Transcript) chunk(thought bool, b block) {
	turn := t.running()
	if turn == nil {
		return
	}
	if b.Type != "text" && !(b.Type == "resource" && b.Resource.Text != "") {
		closeText(t, turn)
		t.emitPart(b.part(t, turn.reply))
		return
	}
	text, kind := b.text(), "text"
	if thought {
		kind = "reasoning"
	}
	if turn.text != nil && (turn.text.Type != kind || turn.text.bytes > maxText) {
		closeText(t, turn)
	}
	if turn.text == nil {
		p := t.addPart(turn.reply, kind)
		p.Text, p.Time = new(string), &PartTime{Start: t.now()}
		turn.text = p
		t.emitPart(p)
	}
	p := turn.text
	p.pending = append(p.pending, text)
	t.resize(p, p.bytes+len(text))
	if len(p.pending) >= maxPending {
		p.join()
	}
	t.emit("message.part.delta", object{"sessionID": t.session, "messageID": p.Message, "partID": p.ID, "field": "text", "delta": text})
}

// closeText ends the open text or thought.
func closeText(t *Transcript, turn *turn) {
	if p := turn.text; p != nil {
		turn.text = nil
		p.Time = &PartTime{p.Time.Start, t.now()}
		t.emitPart(p)
	}
}

// join adds the pending chunks to the text.
func (p *Part) join() {
	if p != nil && len(p.pending) > 0 {
		text := *p.Text + strings.Join(p.pending, "")
		p.Text, p.pending = &text, nil
	}
}
