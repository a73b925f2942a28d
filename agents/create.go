package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/internal/skills"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// SessionOptions describes a session to make.
type SessionOptions struct {
	Agent        string
	Cwd          string // absolute
	Title        string
	Mode         string // one of the agent's modes; empty: its default
	Model        string // one of the agent's models; empty: its default
	ThoughtLevel string // one of the agent's thought levels; empty: its default
	Desktop      string // as in PostOptions
	MCPServers   []MCPServer
	Permissions  *Policy         // nil: Config.Permissions
	Meta         json.RawMessage // _meta of session/new; nil: none
	Origin       string          // the API that makes the session. Empty: "go"

	// Skills is an entry for skills.json with the session's own skills. It has the name
	// "session-" and the session's id, from the session's start until its end. An entry
	// that was changed meanwhile stays. Nil: none.
	Skills json.RawMessage

	// Lenient adds a mode, model or thought level that the agent does not have to the
	// session's problems. Otherwise it is an error.
	Lenient bool
}

func (o SessionOptions) check(id string) error {
	switch {
	case !recordable(id):
		return &InvalidError{"sessionId", fmt.Sprintf("must be text of 1 to %d bytes", maxSessionID)}
	case o.Agent == "":
		return &InvalidError{"agent", "must not be empty"}
	case !filepath.IsAbs(o.Cwd):
		return &InvalidError{"cwd", "must be an absolute path"}
	case o.Skills != nil && !json.Valid(o.Skills):
		return &InvalidError{"skills", "must be JSON"}
	case o.Meta != nil && !json.Valid(o.Meta):
		return &InvalidError{"meta", "must be JSON"}
	case o.Permissions != nil:
		return o.Permissions.check()
	}
	return nil
}

// ownServer returns the ACP server of a session that CreateSession makes.
func ownServer(session string) string { return "ses-" + session }

// serverOfSession returns the server of a session, or the one in which the session continues
// if its server was deleted.
func serverOfSession(row eventlog.Session) string { return cmp.Or(row.Server, ownServer(row.ID)) }

// CreateSession makes a session with an id of the caller's choice, in a process of its own.
// CreateSession blocks until the agent is installed and started and the session's mode, model
// and thought level are set. Until then other callers get [ErrSessionStarting].
//
// Invalid options, [ErrSessionExists], [ErrTooManyAgents], [ErrNoMemory] and [ErrDraining]
// usually change nothing. After any other error the session's state is failed, and the session
// can be made again.
//
// Errors: the errors of [Host.Post], [ErrSessionExists] and [ResponseError]. If the agent takes
// longer than Config.StartTimeout and Config.RestoreTimeout together to make the session, the
// error wraps context.DeadlineExceeded.
func (h *Host) CreateSession(ctx context.Context, id string, o SessionOptions) (Session, error) {
	if err := o.check(id); err != nil {
		return Session{}, err
	}
	if err := h.launcher.lookUp(o.Agent, cmp.Or(o.Desktop, h.cfg.Desktop)); err != nil {
		return Session{}, err
	}
	if err := h.capacity.check(); err != nil {
		return Session{}, err
	}
	if o.Origin == "" {
		o.Origin = originGo
	}
	row := eventlog.Session{
		ID: id, Agent: o.Agent, Server: ownServer(id), Origin: o.Origin, Cwd: o.Cwd, Title: cuttext.Cut(sanitized(o.Title), maxTitle), State: eventlog.Starting,
		CreatedAt: time.Now(), Data: encode(sessionData{Maker: h.cfg.Log.Instance()}),
	}
	err := commitNow(ctx, h.cfg.Log, func(tx *eventlog.Tx) error {
		if old, err := tx.Session(id); !errors.Is(err, eventlog.ErrNotFound) {
			if err == nil && old.State != eventlog.Failed {
				err = ErrSessionExists
			}
			if err != nil {
				return err
			}
		}
		return tx.PutSession(row)
	})
	if err != nil {
		return Session{}, err
	}
	if err := h.makeSession(ctx, id, o); err != nil {
		return Session{}, errors.Join(err, h.recordFailure(row, err))
	}
	return h.Session(ctx, id)
}

// makeSession starts the process of a session and makes the session in it.
func (h *Host) makeSession(ctx context.Context, id string, o SessionOptions) (err error) {
	p, err := h.process(ctx, ownServer(id), PostOptions{Agent: o.Agent, Desktop: o.Desktop}, hostInitialize, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.StartTimeout+h.cfg.RestoreTimeout)
	defer cancel()
	if o.Skills != nil {
		defer func() {
			if err != nil {
				h.dropSkills(id, o.Cwd, folders.Hash(o.Skills)) // which may be there also if Put fails
			}
		}()
		if err := h.folders.Put(ctx, o.Cwd, folders.Skills, skills.EntryName(id), o.Skills); err != nil {
			return fmt.Errorf("keep the session's skills: %w", err)
		}
	}
	params := encode(struct {
		Cwd  string          `json:"cwd"`
		MCP  []MCPServer     `json:"mcpServers"`
		Meta json.RawMessage `json:"_meta,omitempty"`
	}{o.Cwd, append([]MCPServer{}, o.MCPServers...), o.Meta})
	c, err := newInternalCall("session/new", params)
	if err != nil {
		return err
	}
	c.origin, c.wantID, c.title, c.policy = o.Origin, id, cuttext.Cut(sanitized(o.Title), maxTitle), o.Permissions
	if o.Skills != nil {
		c.skills = folders.Hash(o.Skills)
	}
	if err := p.configure(ctx, c); err != nil {
		return err
	}
	return p.makeSession(ctx, c, o)
}

// makeSession makes a session, and sets its mode, model and thought level. Until that
// is in the log no client uses the session. After an error the process detaches it.
func (p *agentProcess) makeSession(ctx context.Context, c *call, o SessionOptions) (err error) {
	defer func() {
		if err == nil {
			return
		}
		c.givenUp.Store(true)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedWait)
		defer cancel()
		p.abandon(wait, c.wantID)
	}()
	raw, err := p.sendInTime(ctx, c)
	if err != nil {
		return err
	}
	if _, err := createdBy("session/new", raw); err != nil {
		return err
	}
	if err := p.chooseAll(ctx, c.wantID, o); err != nil {
		return err
	}
	return p.edit(ctx, c.wantID, hostEvent{}, func(s *attachedSession) error {
		s.making, s.data.Maker = false, ""
		s.saveData()
		return nil
	})
}
