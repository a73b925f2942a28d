package opencode

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// recordStream is the stream with the records of all sessions. The newest record of a session
// counts.
const recordStream = "opencode"

// record is what clients of this API set for a session and the session itself does not have.
type record struct {
	ID         string          `json:"id"`
	Parent     string          `json:"parent,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Permission json.RawMessage `json:"permission,omitempty"`
	Archived   int64           `json:"archived,omitempty"`
	Deleted    bool            `json:"deleted,omitempty"`
	Draft      *draft          `json:"draft,omitempty"`
}

// draft is a session whose agent is not known before its first prompt.
type draft struct {
	Cwd     string    `json:"cwd"`
	Title   string    `json:"title,omitempty"`
	Mode    string    `json:"mode,omitempty"`
	Created time.Time `json:"created"`
}

// records has the records of all sessions. Its zero value is ready to use.
type records struct {
	mu   sync.Mutex // guards the fields below
	read int64      // the last entry of the stream that all has
	all  map[string]record
}

// load reads the entries that are new. The caller holds mu.
func (r *records) load(ctx context.Context, log *eventlog.Log) error {
	if r.all == nil {
		r.all = map[string]record{}
	}
	for {
		entries, err := log.Read(ctx, recordStream, r.read, entriesPage)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			var one record
			if json.Unmarshal(e.Payload, &one) == nil {
				r.all[one.ID] = one
			}
			r.read = e.Seq
		}
	}
}

// get returns the record of a session. It is empty if there is none.
func (r *records) get(ctx context.Context, log *eventlog.Log, id string) (record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.load(ctx, log)
	one := r.all[id]
	one.ID = id
	return one, err
}

// list returns all records.
func (r *records) list(ctx context.Context, log *eventlog.Log) (all []record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.load(ctx, log)
	for _, one := range r.all {
		all = append(all, one)
	}
	return all, err
}

// change changes the record of a session, and returns it.
func (r *records) change(ctx context.Context, log *eventlog.Log, id string, change func(*record)) (record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx, log); err != nil {
		return record{}, err
	}
	one := r.all[id]
	one.ID = id
	change(&one)
	payload, err := json.Marshal(one)
	if err != nil {
		return one, err
	}
	err = log.Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: recordStream, Dir: eventlog.Client, Kind: "record", Payload: payload})
		return err
	})
	if err == nil {
		r.all[id] = one
	}
	return one, err
}

// rule is a rule about permissions.
type rule struct {
	Permission string `json:"permission"`
	Pattern    string `json:"pattern"`
	Action     string `json:"action"`
}

// policyOf returns the policy that rules about permissions stand for, or nil if there are no
// rules.
func policyOf(raw json.RawMessage) (*agents.Policy, error) {
	var rules []rule
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &rules); err != nil {
		return nil, rest.InvalidField("permission", "permission must be a list of rules")
	}
	if len(rules) == 0 {
		return nil, nil
	}
	last := rules[len(rules)-1]
	mode, ok := map[string]agents.Mode{"allow": agents.Allow, "deny": agents.Reject, "ask": agents.Ask}[last.Action]
	if !ok {
		return nil, rest.InvalidField("permission", "permission: the action must be allow, deny or ask")
	}
	if last.Permission != "*" || last.Pattern != "*" {
		return nil, notImplemented("rules about single permissions are not supported: agents have their own; the last rule must have the permission * and the pattern *")
	}
	return &agents.Policy{Mode: mode}, nil
}

// notImplemented returns the problem of a request that is not supported.
func notImplemented(detail string) *rest.Problem {
	return rest.Kind{Code: "not_implemented", Title: "Not Implemented", Status: http.StatusNotImplemented}.Problem(detail)
}
