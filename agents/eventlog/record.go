package eventlog

import (
	"time"
)

// State is what a session does.
type State string

// The states of a session.
const (
	Starting    State = "starting"    // it is being made, up to the choices that it was asked for with
	Idle        State = "idle"        // it waits for a prompt
	Running     State = "running"     // a turn is under way
	Waiting     State = "waiting"     // a turn waits for an answer, to a permission for instance
	Interrupted State = "interrupted" // the server ended in the middle of it; the next prompt goes on
	Ended       State = "ended"
	Failed      State = "failed"
)

// Session is a conversation with an agent. It survives the agent's processes
// and the server.
type Session struct {
	ID        string
	Agent     string
	Server    string // the ACP server id that it belongs to; empty: none
	Native    string // what its current or last process calls it
	Origin    string // the API that it was made by: "acp", "rest", "oc"
	Continues string // the session whose history this one goes on with; empty: none
	Cwd       string
	Title     string
	Init      []byte // JSON: what it was made with
	Modes     []byte // JSON
	Config    []byte // JSON
	Caps      []byte // JSON: its agent's capabilities
	Data      []byte // JSON: what else its owner keeps
	State     State
	EndReason string
	ExitCode  *int
	Error     []byte // JSON
	CreatedAt time.Time
	UpdatedAt time.Time
	EndedAt   time.Time // zero: has not ended
}

// Process is one process of an agent.
type Process struct {
	ID         string
	Server     string // the ACP server id that it answers for
	Agent      string
	Version    string
	Instance   string // the server that started it: [Log.Instance]
	PID        int
	PIDStarted int64     // when, in the kernel's ticks: tells it from a later process of that PID
	BootID     string    // of the machine: a PID means nothing after the next boot
	Init       []byte    // JSON: the initialize request that it got
	Data       []byte    // JSON: what else its owner keeps
	Base       int64     // the last sequence of the server's stream before it
	StartedAt  time.Time // orders the processes of a server: see [Tx.StartProcess]
	ExitedAt   time.Time // zero: runs, as far as is known
	Reason     string    // why it ended, in its owner's words
	ExitCode   *int
	Stderr     []byte // the end of it
}

// RequestKey names a request: JSON-RPC ids are unique per process and sender.
type RequestKey struct {
	Process string
	Dir     Direction // who asks
	RPC     string    // the id, as JSON
}

// RequestState says how far a request is.
type RequestState string

// The states of a request.
const (
	Pending   RequestState = "pending"
	Answered  RequestState = "answered"
	Cancelled RequestState = "cancelled"
)

// Request is a question of one side to the other: a permission, a file, a
// prompt.
type Request struct {
	RequestKey
	Session    string
	PublicID   string // what clients call it; unique unless empty
	Method     string
	Params     []byte
	State      RequestState
	Answer     []byte
	AskedAt    time.Time
	AnsweredAt time.Time // zero: is open
}

// maxText is how long titles and folders may be.
const maxText = 64 << 10

func (s *Session) check(now time.Time) error {
	if s.ID == "" {
		return &InvalidError{"session.id", "must not be empty"}
	}
	switch s.State {
	case Starting, Idle, Running, Waiting, Interrupted, Ended, Failed:
	default:
		return &InvalidError{"session.state", "must be one of the states, not " + quote(string(s.State))}
	}
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"session.id", s.ID, maxName},
		{"session.agent", s.Agent, maxName},
		{"session.server", s.Server, maxName},
		{"session.native", s.Native, maxName},
		{"session.origin", s.Origin, maxName},
		{"session.continues", s.Continues, maxName},
		{"session.cwd", s.Cwd, maxText},
		{"session.title", s.Title, maxText},
		{"session.endReason", s.EndReason, maxText},
	} {
		if err := checkText(f.name, f.value, f.limit); err != nil {
			return err
		}
	}
	if s.CreatedAt.IsZero() {
		s.CreatedAt = now
	}
	if s.UpdatedAt.IsZero() {
		s.UpdatedAt = now
	}
	s.CreatedAt, s.UpdatedAt, s.EndedAt = stamp(micros(s.CreatedAt)), stamp(micros(s.UpdatedAt)), stamp(micros(s.EndedAt))
	return nil
}

func (l *Process) check(now time.Time) error {
	if l.ID == "" {
		return &InvalidError{"process.id", "must not be empty"}
	}
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"process.id", l.ID, maxName},
		{"process.server", l.Server, maxName},
		{"process.agent", l.Agent, maxName},
		{"process.version", l.Version, maxName},
		{"process.instance", l.Instance, maxName},
		{"process.bootId", l.BootID, maxName},
		{"process.reason", l.Reason, maxText},
	} {
		if err := checkText(f.name, f.value, f.limit); err != nil {
			return err
		}
	}
	if l.StartedAt.IsZero() {
		l.StartedAt = now
	}
	l.StartedAt, l.ExitedAt = stamp(micros(l.StartedAt)), stamp(micros(l.ExitedAt))
	return nil
}

func (r *Request) check(now time.Time) error {
	if r.Process == "" {
		return &InvalidError{"request.process", "must not be empty"}
	}
	if r.Dir < Agent || r.Dir > Daemon {
		return &InvalidError{"request.dir", "must be Agent, Client or Daemon"}
	}
	switch r.State {
	case "":
		r.State = Pending
	case Pending, Answered, Cancelled:
	default:
		return &InvalidError{"request.state", "must be pending, answered or cancelled, not " + quote(string(r.State))}
	}
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"request.process", r.Process, maxName},
		{"request.rpc", r.RPC, maxName},
		{"request.session", r.Session, maxName},
		{"request.publicId", r.PublicID, maxName},
		{"request.method", r.Method, maxName},
	} {
		if err := checkText(f.name, f.value, f.limit); err != nil {
			return err
		}
	}
	if r.AskedAt.IsZero() {
		r.AskedAt = now
	}
	r.AskedAt, r.AnsweredAt = stamp(micros(r.AskedAt)), stamp(micros(r.AnsweredAt))
	return nil
}
