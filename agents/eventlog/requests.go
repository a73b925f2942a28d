package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// RequestKey names a request. JSON-RPC ids are unique for a process and a sender.
type RequestKey struct {
	Process string
	Dir     Direction // the sender
	RPC     string    // the id, as JSON
}

// RequestState is the state of a request.
type RequestState string

// The states of a request.
const (
	Pending   RequestState = "pending"
	Answered  RequestState = "answered"
	Cancelled RequestState = "cancelled"
)

// Request is a request between a client and an agent, for example a prompt or a
// request for permission.
type Request struct {
	RequestKey
	Session    string
	PublicID   string // the id in APIs; unique unless empty
	Method     string
	Params     []byte // of a pending request; the log drops them with the answer
	State      RequestState
	Answer     []byte // the log drops it if it has more than MaxAnswer bytes, and keeps the event
	AskedAt    time.Time
	AnsweredAt time.Time // zero: the request is open

	// ParamsLeftOut reports that [RequestFilter.MaxParams] has left out Params. It is not stored.
	ParamsLeftOut bool
}

// MaxAnswer bounds [Request.Answer] in bytes: retention keeps the records of a process that runs.
const MaxAnswer = 64 << 10

func (r *Request) check(now time.Time) error {
	if r.Process == "" {
		return &InvalidError{"request.process", "must not be empty"}
	}
	if r.Dir < Agent || r.Dir > Daemon {
		return &InvalidError{"request.dir", "must be Agent, Client or Daemon"}
	}
	switch r.State = cmp.Or(r.State, Pending); r.State {
	case Pending, Answered, Cancelled:
	default:
		return &InvalidError{"request.state", fmt.Sprintf("must be pending, answered or cancelled, not %.100q", r.State)}
	}
	if r.State != Pending { // retention keeps the requests of a process that runs
		r.Params = nil
	}
	if len(r.Answer) > MaxAnswer {
		r.Answer = nil
	}
	r.AskedAt, r.AnsweredAt = asStored(r.AskedAt, now), asStored(r.AnsweredAt, time.Time{})
	return checkTexts("request", maxName, "process", r.Process, "rpc", r.RPC, "session", r.Session, "publicId", r.PublicID, "method", r.Method)
}

// requestColumns returns the columns of requestTable. params is the one with Params.
func requestColumns(params string) string {
	return "life, dir, rpc_id, session, public_id, method, " + params + ", state, answer, asked_at, answered_at"
}

var requestTable = table[RequestKey, Request]{
	noun: "request", name: "request", key: "life, dir, rpc_id",
	columns: requestColumns("params"),
	keyOf:   func(r *Request) RequestKey { return r.RequestKey },
	keyArgs: func(k RequestKey) []any { return []any{k.Process, int64(k.Dir), k.RPC} },
	fields: func(r *Request) []any {
		return []any{
			&r.Process, (*int)(&r.Dir), &r.RPC, &r.Session, (*optionalColumn)(&r.PublicID), &r.Method, &r.Params,
			(*string)(&r.State), &r.Answer, (*timeColumn)(&r.AskedAt), (*timeColumn)(&r.AnsweredAt),
		}
	},
	compare: func(a, b Request) int {
		return cmp.Or(a.AskedAt.Compare(b.AskedAt), cmp.Compare(a.Process, b.Process), cmp.Compare(a.RPC, b.RPC))
	},
}

// boundedRequests returns requestTable for reading requests without Params above a size.
func boundedRequests(most int) *table[RequestKey, Request] {
	t := requestTable
	bounded := fmt.Sprintf("case when length(params) <= %d then params end", most)
	t.columns = requestColumns(bounded) + fmt.Sprintf(", coalesce(length(params), 0) > %d", max(most, 0))
	t.fields = func(r *Request) []any { return append(requestTable.fields(r), &r.ParamsLeftOut) }
	return &t
}

// Request returns a request, or [ErrNotFound].
func (l *Log) Request(ctx context.Context, key RequestKey) (Request, error) {
	return lookup(ctx, l, &requestTable, key)
}

// RequestFilter selects requests. Fields that are zero select all.
type RequestFilter struct {
	Process  string
	Session  string
	PublicID string
	Pending  bool

	// MaxParams bounds Params in bytes: larger ones are not loaded, and [Request.ParamsLeftOut] is
	// set. Zero loads all, and a negative number none. It does not apply to requests that the
	// transaction has put.
	MaxParams int
}

func (f RequestFilter) match(r Request) bool {
	return (f.Process == "" || f.Process == r.Process) && (f.Session == "" || f.Session == r.Session) &&
		(f.PublicID == "" || f.PublicID == r.PublicID) && (!f.Pending || r.State == Pending)
}

// Requests returns the selected requests, the oldest first.
func (l *Log) Requests(ctx context.Context, f RequestFilter) ([]Request, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	return f.list(ctx, l.db.reader(), nil)
}

func (f RequestFilter) list(ctx context.Context, q querier, above *overlay[RequestKey, Request]) ([]Request, error) {
	c := new(condition)
	c.equal("life", f.Process)
	c.equal("session", f.Session)
	c.equal("public_id", f.PublicID)
	if f.Pending {
		c.add("state = 'pending'")
	}
	t := &requestTable
	if f.MaxParams != 0 {
		t = boundedRequests(f.MaxParams)
	}
	return t.list(ctx, q, c.statement(t.selectAll(), ""), above, f.match)
}
