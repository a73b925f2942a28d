package agents

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/agents/eventlog"
)

const (
	// historyBudget bounds the bytes of history for an agent that has forgotten a session.
	historyBudget = 12_000
	historyPages  = 40 // the most pages to read
)

// historyEvents selects the events with text for the history. Updates that are larger are mostly
// pictures and output of tools, but prompts may have pictures too.
var historyEvents = []eventlog.Selection{
	{Dir: eventlog.Client, Kind: "session/prompt", MaxBytes: math.MaxInt32},
	{Dir: eventlog.Agent, Kind: "session/update", MaxBytes: 256 << 10},
}

const (
	historyBegin = "This conversation goes on from an earlier one, which follows as a transcript. Do not answer what is in it again.\n\n"
	historyCut   = "[the beginning is left out]\n\n"
	historyEnd   = "\n\nEnd of the transcript. What comes now is new:"
)

// historyOf returns the newest part of a session as text.
func historyOf(ctx context.Context, log *eventlog.Log, session string) (string, error) {
	var turns []transcriptPart // the newest first
	size, before, cut := 0, int64(math.MaxInt64), true
	for page := 0; page < historyPages && cut && size <= historyBudget; page++ {
		events, err := log.ReadBack(ctx, SessionStream(session), before, historyEvents...)
		if err != nil {
			return "", err
		}
		cut = len(events) > 0
		for _, e := range events {
			before = e.Seq
			part := transcriptPartOf(e)
			size += len(part.text)
			turns = prependPart(turns, part)
		}
	}
	return transcript(turns, cut), nil
}

// transcriptPart is a message of one side.
type transcriptPart struct{ who, text string }

// prependPart adds an earlier turn to turns, of which the newest is the first.
func prependPart(turns []transcriptPart, before transcriptPart) []transcriptPart {
	if before.text == "" {
		return turns
	}
	if n := len(turns); n > 0 && turns[n-1].who == before.who && before.who == "Assistant" {
		turns[n-1].text = before.text + turns[n-1].text // pieces of one message
		return turns
	}
	return append(turns, before)
}

func transcript(turns []transcriptPart, cut bool) string {
	if len(turns) == 0 && !cut {
		return ""
	}
	room := historyBudget
	var parts []string
	for _, t := range turns {
		part := t.who + ": " + strings.TrimSpace(t.text)
		if len(part) > room {
			cut = true
			if room > 200 && len(parts) == 0 { // keep the end of the newest message
				parts = append(parts, t.who+": ..."+strings.ToValidUTF8(part[len(part)-room+100:], ""))
			}
			break
		}
		room -= len(part)
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	head := historyBegin
	if cut {
		head += historyCut
	}
	return head + strings.Join(parts, "\n\n") + historyEnd
}

// transcriptPartOf returns the message in one of the historyEvents, or the zero turn.
func transcriptPartOf(e eventlog.Event) transcriptPart {
	switch e.Kind {
	case "session/prompt":
		var m struct {
			Params struct {
				Prompt []contentBlock `json:"prompt"`
			} `json:"params"`
		}
		if json.Unmarshal(e.Payload, &m) != nil {
			return transcriptPart{}
		}
		var parts []string
		for _, b := range m.Params.Prompt {
			parts = append(parts, b.String())
		}
		return transcriptPart{"User", strings.Join(parts, "\n")}
	case "session/update":
		return updatePart(e.Payload)
	}
	return transcriptPart{}
}

func updatePart(payload []byte) transcriptPart {
	var m struct {
		Params struct {
			Update struct {
				Kind    string          `json:"sessionUpdate"`
				Content json.RawMessage `json:"content"`
				Title   string          `json:"title"`
			} `json:"update"`
		} `json:"params"`
	}
	if json.Unmarshal(payload, &m) != nil {
		return transcriptPart{}
	}
	switch u := m.Params.Update; u.Kind {
	case "agent_message_chunk":
		var b contentBlock
		if json.Unmarshal(u.Content, &b) == nil {
			return transcriptPart{"Assistant", b.String()}
		}
	case "tool_call":
		return transcriptPart{"Tool", u.Title}
	}
	return transcriptPart{}
}

type contentBlock struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	URI      string `json:"uri"`
	Resource struct {
		URI string `json:"uri"`
	} `json:"resource"`
}

func (b contentBlock) String() string {
	switch {
	case b.Type == "text":
		return b.Text
	case b.Resource.URI != "":
		return "[" + b.Resource.URI + "]"
	case b.URI != "":
		return "[" + b.URI + "]"
	}
	return "[" + b.Type + "]"
}

// replayedID matches the ids of sessions in a history that a client sends. The SDK of
// sandbox-agent resumes a session by a new one, and its first prompt begins with the
// messages of the old one.
var replayedID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\?"sessionId\\?"\s*:\s*\\?"([^"\\]{1,512})\\?"`)
})

const replayedMark = "session history is replayed below"

// linkHistory records the session that the first prompt continues. known reports whether there
// is a session of that id.
func (s *attachedSession) linkHistory(env *envelope, known func(string) bool) {
	if s.row.Continues != "" || s.linked {
		return
	}
	s.linked = true
	prompt := env.bytes(env.find(env.params, "prompt"))
	if !strings.Contains(string(prompt[:min(len(prompt), 4096)]), replayedMark) {
		return
	}
	var blocks []contentBlock
	_ = json.Unmarshal(prompt, &blocks)
	for _, b := range blocks {
		for _, m := range replayedID().FindAllStringSubmatch(b.Text, 50) {
			if m[1] != s.row.ID && known(m[1]) {
				s.row.Continues = m[1]
				return
			}
		}
	}
}
