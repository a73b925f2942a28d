package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

const requestColumns = "life, dir, rpc_id, session, public_id, method, params, state, answer, asked_at, answered_at"

var requestUpsert = upsert("request", "life, dir, rpc_id", requestColumns)

func putRequest(r Request) statement {
	return statement{requestUpsert, []any{
		r.Process, int64(r.Dir), r.RPC, r.Session, null(r.PublicID), r.Method, r.Params,
		string(r.State), r.Answer, micros(r.AskedAt), micros(r.AnsweredAt),
	}}
}

func scanRequest(scan func(...any) error) (r Request, err error) {
	var asked, answered int64
	var public *string
	err = scan(&r.Process, (*int)(&r.Dir), &r.RPC, &r.Session, &public, &r.Method, &r.Params,
		(*string)(&r.State), &r.Answer, &asked, &answered)
	if public != nil {
		r.PublicID = *public
	}
	r.AskedAt, r.AnsweredAt = stamp(asked), stamp(answered)
	return r, err
}

func findRequest(ctx context.Context, q querier, key RequestKey) (r Request, err error) {
	found := false
	err = q.query(ctx, statement{
		"select " + requestColumns + " from request where life = $1 and dir = $2 and rpc_id = $3",
		[]any{key.Process, int64(key.Dir), key.RPC},
	}, func(scan func(...any) error) (bool, error) {
		found = true
		r, err = scanRequest(scan)
		return false, err
	})
	if err == nil && !found {
		err = fmt.Errorf("request %s of %s: %w", quote(key.RPC), quote(key.Process), ErrNotFound)
	}
	return r, err
}

// Request returns a request, or [ErrNotFound].
func (l *Log) Request(ctx context.Context, key RequestKey) (Request, error) {
	if err := l.open(); err != nil {
		return Request{}, err
	}
	return findRequest(ctx, l.db.reader(), key)
}

// RequestFilter says which requests a list has. Zero fields let all through.
type RequestFilter struct {
	Process  string
	Session  string
	PublicID string
	Pending  bool
}

func (f RequestFilter) has(r Request) bool {
	return (f.Process == "" || f.Process == r.Process) && (f.Session == "" || f.Session == r.Session) &&
		(f.PublicID == "" || f.PublicID == r.PublicID) && (!f.Pending || r.State == Pending)
}

// Requests returns the requests that a filter lets through, by the time at which
// they were asked.
func (l *Log) Requests(ctx context.Context, f RequestFilter) ([]Request, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	return requests(ctx, l.db.reader(), f, nil)
}

func requests(ctx context.Context, q querier, f RequestFilter, above *overlay[RequestKey, Request]) (all []Request, err error) {
	c := new(condition)
	c.equal("life", f.Process)
	c.equal("session", f.Session)
	c.equal("public_id", f.PublicID)
	if f.Pending {
		c.add("state = 'pending'")
	}
	err = q.query(ctx, c.statement("select "+requestColumns+" from request", ""), func(scan func(...any) error) (bool, error) {
		r, err := scanRequest(scan)
		if _, changed := above.get(r.RequestKey); !changed {
			all = append(all, r)
		}
		return true, err
	})
	above.each(func(_ RequestKey, r Request) {
		if f.has(r) {
			all = append(all, r)
		}
	})
	slices.SortFunc(all, func(a, b Request) int {
		return cmp.Or(a.AskedAt.Compare(b.AskedAt), cmp.Compare(a.Process, b.Process), cmp.Compare(a.RPC, b.RPC))
	})
	return all, err
}
