package eventlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// A session is exported as lines of JSON, each an object with one member:
// "export", then "session", its "life"s, "request"s and "event"s, and "end",
// without which something is missing. Further sessions may follow.

// lineVersion is that of the format.
const lineVersion = 1

type line struct {
	Export  *exportLine  `json:"export,omitempty"`
	Session *sessionLine `json:"session,omitempty"`
	Life    *lifeLine    `json:"life,omitempty"`
	Request *requestLine `json:"request,omitempty"`
	Event   *eventLine   `json:"event,omitempty"`
	End     *endLine     `json:"end,omitempty"`
}

type exportLine struct {
	Format  string `json:"format"` // "deskhand session"
	Version int    `json:"version"`
	Session string `json:"session"`
}

type endLine struct {
	Events int64 `json:"events"`
}

type sessionLine struct {
	ID        string    `json:"id"`
	Agent     string    `json:"agent,omitempty"`
	Server    string    `json:"server,omitempty"`
	Native    string    `json:"native,omitempty"`
	Origin    string    `json:"origin,omitempty"`
	Continues string    `json:"continues,omitempty"`
	Cwd       string    `json:"cwd,omitempty"`
	Title     string    `json:"title,omitempty"`
	Init      exact     `json:"init,omitzero"`
	Modes     exact     `json:"modes,omitzero"`
	Config    exact     `json:"config,omitzero"`
	Caps      exact     `json:"caps,omitzero"`
	Data      exact     `json:"data,omitzero"`
	State     State     `json:"state"`
	EndReason string    `json:"endReason,omitempty"`
	ExitCode  *int      `json:"exitCode,omitempty"`
	Error     exact     `json:"error,omitzero"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

type lifeLine struct {
	ID         string    `json:"id"`
	Server     string    `json:"server,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Version    string    `json:"version,omitempty"`
	Instance   string    `json:"instance,omitempty"`
	PID        int       `json:"pid,omitempty"`
	PIDStarted int64     `json:"pidStarted,omitempty"`
	BootID     string    `json:"bootId,omitempty"`
	Init       exact     `json:"init,omitzero"`
	Data       exact     `json:"data,omitzero"`
	Base       int64     `json:"base,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	ExitedAt   time.Time `json:"exitedAt,omitzero"`
	Reason     string    `json:"reason,omitempty"`
	ExitCode   *int      `json:"exitCode,omitempty"`
	Stderr     exact     `json:"stderr,omitzero"`
}

type requestLine struct {
	Life       string       `json:"life"`
	Dir        dirName      `json:"dir"`
	RPC        string       `json:"rpc"`
	Session    string       `json:"session,omitempty"`
	PublicID   string       `json:"publicId,omitempty"`
	Method     string       `json:"method,omitempty"`
	Params     exact        `json:"params,omitzero"`
	State      RequestState `json:"state"`
	Answer     exact        `json:"answer,omitzero"`
	AskedAt    time.Time    `json:"askedAt"`
	AnsweredAt time.Time    `json:"answeredAt,omitzero"`
}

type eventLine struct {
	Stream  string    `json:"stream"`
	Seq     int64     `json:"seq"`
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Life    string    `json:"life,omitempty"`
	Session string    `json:"session,omitempty"`
	Dir     dirName   `json:"dir"`
	Kind    string    `json:"kind,omitempty"`
	Payload exact     `json:"payload"`
}

// exact is bytes that come back as they were: text as a string, anything else
// as {"base64": "..."}. Nil is left out.
type exact []byte

func (b exact) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return marshal(string(b))
	}
	return json.Marshal(map[string][]byte{"base64": b})
}

func (b *exact) UnmarshalJSON(text []byte) error {
	var s *string
	if json.Unmarshal(text, &s) == nil {
		*b = nil
		if s != nil {
			*b = append([]byte{}, *s...)
		}
		return nil
	}
	var binary struct {
		Base64 *[]byte `json:"base64"`
	}
	if err := strict(text, &binary); err != nil {
		return err
	}
	if binary.Base64 == nil {
		return fmt.Errorf(`must be a string or {"base64": "..."}`)
	}
	*b = append([]byte{}, *binary.Base64...)
	return nil
}

// dirName is a Direction by its name.
type dirName Direction

func (d dirName) MarshalText() ([]byte, error) { return []byte(Direction(d).String()), nil }

func (d *dirName) UnmarshalText(text []byte) error {
	for _, known := range []Direction{Agent, Client, Daemon} {
		if string(text) == known.String() {
			*d = dirName(known)
			return nil
		}
	}
	return fmt.Errorf("dir must be agent, client or daemon, not %s", quote(string(text)))
}

// marshal is JSON without the escapes that are for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// strict decodes JSON whose nesting is bounded. It returns an error for an unknown member.
func strict(text []byte, v any) error {
	if err := jsonlimit.Check(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows the object")
	}
	return nil
}

func lineOfSession(s Session) *sessionLine {
	return &sessionLine{
		s.ID, s.Agent, s.Server, s.Native, s.Origin, s.Continues, s.Cwd, s.Title, s.Init, s.Modes, s.Config, s.Caps, s.Data,
		s.State, s.EndReason, s.ExitCode, s.Error, s.CreatedAt, s.UpdatedAt, s.EndedAt,
	}
}

func (s *sessionLine) session() Session {
	return Session{
		s.ID, s.Agent, s.Server, s.Native, s.Origin, s.Continues, s.Cwd, s.Title, s.Init, s.Modes, s.Config, s.Caps, s.Data,
		s.State, s.EndReason, s.ExitCode, s.Error, s.CreatedAt, s.UpdatedAt, s.EndedAt,
	}
}

func lineOfLife(l Life) *lifeLine {
	return &lifeLine{
		l.ID, l.Server, l.Agent, l.Version, l.Instance, l.PID, l.PIDStarted, l.BootID, l.Init, l.Data, l.Base,
		l.StartedAt, l.ExitedAt, l.Reason, l.ExitCode, l.Stderr,
	}
}

func (l *lifeLine) life() Life {
	return Life{
		l.ID, l.Server, l.Agent, l.Version, l.Instance, l.PID, l.PIDStarted, l.BootID, l.Init, l.Data, l.Base,
		l.StartedAt, l.ExitedAt, l.Reason, l.ExitCode, l.Stderr,
	}
}

func lineOfRequest(r Request) *requestLine {
	return &requestLine{
		r.Life, dirName(r.Dir), r.RPC, r.Session, r.PublicID, r.Method, r.Params, r.State, r.Answer, r.AskedAt, r.AnsweredAt,
	}
}

func (r *requestLine) request() Request {
	return Request{
		RequestKey{r.Life, Direction(r.Dir), r.RPC}, r.Session, r.PublicID, r.Method, r.Params, r.State, r.Answer, r.AskedAt, r.AnsweredAt,
	}
}

func lineOfEvent(e Event) *eventLine {
	return &eventLine{e.Stream, e.Seq, e.ID, e.At, e.Life, e.Session, dirName(e.Dir), e.Kind, e.Payload}
}

func (e *eventLine) event() Event {
	return Event{e.Stream, e.Seq, e.ID, e.At, e.Life, e.Session, Direction(e.Dir), e.Kind, e.Payload}
}
