package opencode

import (
	"fmt"
	"slices"
)

// Limits of what a transcript holds. The log has what is beyond them.
const (
	maxEntry    = 8 << 20   // bytes of an entry of the agent
	maxText     = 1 << 20   // bytes of a text, after which another part continues
	maxBytes    = 32 << 20  // bytes of all messages, unless Config.MaxBytes is set
	maxInput    = 1 << 20   // bytes of the input of a tool call
	maxContent  = 4 << 20   // bytes of the content or the output of a tool call
	maxTitle    = 16 << 10  // bytes of the title of a tool call
	maxError    = 4 << 10   // bytes of an error of the agent
	maxName     = 1 << 10   // bytes of the id or the kind of a tool call, and of a name
	maxShown    = 256 << 10 // bytes of a tool call that a question about it shows
	maxPlaces   = 100       // files that a tool call names
	maxPath     = 4 << 10   // bytes of a path
	maxFiles    = 1000      // files that the agent changed
	maxFile     = 1 << 20   // bytes of a file's text before and after the changes
	maxDiffs    = 4 << 20   // bytes of the texts of all these files, and of their patches
	maxAsked    = 1000      // questions without an answer
	maxAskedAll = 8 << 20   // bytes of these questions
	maxTodos    = 1000      // entries of a plan
	maxCommands = 1000      // slash commands

	// overhead is about how much memory a message or a part takes beside its texts.
	overhead = 1 << 10

	// maxGrowth is how many times larger than a message the tool call may be that the message
	// changes. A smaller change is shown with the end of the call.
	maxGrowth = 64

	// maxPending is how many chunks of a text are kept until they are joined.
	maxPending = 4096
)

// resize records that a part takes n bytes.
func (t *Transcript) resize(p *Part, n int) {
	t.bytes += n - p.bytes
	p.bytes = n
}

// measure records how many bytes the part of a tool call takes. r is nil after the turn.
func (t *Transcript) measure(p *Part, r *result) {
	n := overhead + p.State.size()
	if r != nil {
		n += r.size()
	}
	t.resize(p, n)
}

// size returns how many bytes the state of a call takes.
func (s *CallState) size() int {
	n := len(s.Input)
	for _, text := range []*string{s.Title, s.Output, s.Error} {
		if text != nil {
			n += len(*text)
		}
	}
	for _, f := range s.Attachments {
		n += overhead + len(f.URL) + len(f.Filename) + len(f.Mime)
	}
	for _, value := range s.Metadata {
		switch v := value.(type) {
		case string:
			n += len(v)
		case FileDiff:
			n += v.size()
		}
	}
	return n
}

// size returns how many bytes the texts of a changed file take.
func (d *FileDiff) size() int { return len(d.Before) + len(d.After) + len(d.Patch) }

// size returns how many bytes a call has told.
func (r *result) size() int {
	n := len(r.title) + len(r.input) + len(r.output) + sizeOf(r.body)
	for _, path := range r.places {
		n += len(path)
	}
	return n
}

// sizeOf returns how many bytes the content of a call takes.
func sizeOf(body []content) (n int) {
	for i := range body {
		c := &body[i]
		n += overhead + len(c.Type) + len(c.Path) + len(c.NewText) + len(c.Terminal) + c.Content.size()
		if c.OldText != nil {
			n += len(*c.OldText)
		}
	}
	return n
}

// size returns how many bytes a block takes.
func (b *block) size() int {
	r := &b.Resource
	return len(b.Type) + len(b.Text) + len(b.Data) + len(b.Mime) + len(b.URI) + len(b.Name) + len(r.URI) + len(r.Mime) + len(r.Text) + len(r.Blob)
}

// leftOut says that something is too large.
func leftOut(what string, bytes int) string {
	return fmt.Sprintf("The %s has %d bytes, which is too much to show. The session's log has it.", what, bytes)
}

// bound forgets the oldest messages if all of them are too large. Of the newest message and of
// those that may still change it forgets the oldest parts.
func (t *Transcript) bound() {
	for i := 0; t.bytes > t.maxBytes && i < len(t.messages); {
		m := t.messages[i]
		if t.changes(m) || i == len(t.messages)-1 {
			for t.bytes > t.maxBytes && len(m.Parts) > 1 {
				t.forgetPart(m)
			}
			i++
			continue
		}
		for len(m.Parts) > 0 {
			t.forgetPart(m)
		}
		delete(t.byID, m.Info.ID)
		t.messages = slices.Delete(t.messages, i, i+1)
		t.bytes -= overhead
	}
}

// changes reports whether a message may still change.
func (t *Transcript) changes(m *Message) bool {
	for _, turn := range t.turns {
		if turn.user == m || turn.reply == m {
			return true
		}
	}
	for _, p := range t.shells {
		if p.Message == m.Info.ID {
			return true
		}
	}
	return false
}

// forgetPart forgets the oldest part of a message. A tool call that runs ends for the clients.
func (t *Transcript) forgetPart(m *Message) {
	p := m.Parts[0]
	if t.calls[p.Call] == p {
		if turn := t.running(); turn != nil && (p.State.Status == "pending" || p.State.Status == "running") {
			t.endCall(turn, p, t.results[p.Call], false)
			t.emitPart(p)
		}
		delete(t.calls, p.Call)
		delete(t.results, p.Call)
	}
	t.bytes -= p.bytes
	m.Parts[0] = nil
	m.Parts = m.Parts[1:]
}
