package agents

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
)

// What a session was made by.
const (
	originACP = "acp"
	originGo  = "go"
)

// Session describes a session.
type Session struct {
	eventlog.Session
	Permissions Policy
	Desktop     string   // that the agent got; empty: none
	Mode        string   // the current one, as far as it was chosen or told
	Model       string   // the same
	Problems    []string // what of its configuration did not work when it was made
}

func sessionOf(row eventlog.Session) Session {
	d := talkOf(row).data
	return Session{row, d.Permissions, d.Desktop, d.Mode, d.Model, d.Problems}
}

// SessionOptions describe a session to make.
type SessionOptions struct {
	Agent        string
	Cwd          string // absolute
	Title        string
	Mode         string // one of the agent's; empty: its default
	Model        string // the same
	ThoughtLevel string // the same
	Desktop      string // as in PostOptions
	MCPServers   []MCPServer
	Permissions  *Policy         // nil: that of the host
	Meta         json.RawMessage // _meta of session/new; nil: none
	Origin       string          // the API that makes it. Empty: "go"

	// Skills are the session's own, as an entry of its folder's skills.json. It
	// is there as "session-" and the id until the session is terminated, or
	// could not be made, and goes then unless somebody has changed it. Nil: none.
	Skills json.RawMessage

	// Lenient makes a mode, model or thought level that the agent does not have
	// one of the session's problems, rather than an error.
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

// own is the ACP server of a session that was not made by way of one.
func own(session string) string { return "ses-" + session }

// serverOfSession is the server in which a session is, or goes on when it was
// deleted.
func serverOfSession(row eventlog.Session) string { return cmp.Or(row.Server, own(row.ID)) }

// CreateSession makes a session with an id of the caller's choice, in a process
// of its own. Nobody else can use it before it has the mode, the model and the
// thought level that were asked for. When that fails the session is there as a
// failed one, with the error, and may be made again.
//
// Errors, beside those of [Host.Post]: [ErrSessionExists], [InvalidError],
// [ResponseError].
func (h *Host) CreateSession(ctx context.Context, id string, o SessionOptions) (Session, error) {
	if err := o.check(id); err != nil {
		return Session{}, err
	}
	if err := h.lookUp(o.Agent, cmp.Or(o.Desktop, h.cfg.Desktop)); err != nil {
		return Session{}, err
	}
	if o.Origin == "" {
		o.Origin = originGo
	}
	row := eventlog.Session{
		ID: id, Agent: o.Agent, Server: own(id), Origin: o.Origin, Cwd: o.Cwd, Title: cut(cleaned(o.Title), maxTitle), State: eventlog.Starting,
		CreatedAt: time.Now(), Data: encode(sessionData{Maker: h.cfg.Log.Instance()}),
	}
	err := h.commit(ctx, func(tx *eventlog.Tx) error {
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
	if err := h.open(ctx, id, o); err != nil {
		return Session{}, errors.Join(err, h.failed(row, err))
	}
	return h.Session(ctx, id)
}

// open starts the process of a session and makes the session in it.
func (h *Host) open(ctx context.Context, id string, o SessionOptions) (err error) {
	l, err := h.serve(ctx, own(id), PostOptions{Agent: o.Agent, Desktop: o.Desktop})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.StartTimeout+h.cfg.RestoreTimeout)
	defer cancel()
	if o.Skills != nil {
		if err := h.keepSkills(ctx, id, o); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				h.dropSkills(id, o.Cwd, folders.Hash(o.Skills))
			}
		}()
	}
	servers := o.MCPServers
	if servers == nil {
		servers = []MCPServer{}
	}
	params := encode(struct {
		Cwd  string          `json:"cwd"`
		MCP  []MCPServer     `json:"mcpServers"`
		Meta json.RawMessage `json:"_meta,omitempty"`
	}{o.Cwd, servers, o.Meta})
	env, err := parse(requestOf(0, "session/new", params))
	if err != nil {
		return err
	}
	c := &call{env: env, internal: true, origin: o.Origin, want: id, title: cut(cleaned(o.Title), maxTitle), policy: o.Permissions}
	if o.Skills != nil {
		c.skills = folders.Hash(o.Skills)
	}
	if err := l.configure(ctx, c); err != nil {
		return err
	}
	return h.makeIn(ctx, l, c, o)
}

func requestOf(id int, method string, params json.RawMessage) []byte {
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      int             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}{"2.0", id, method, params})
}

// asClient is what the host says to an agent that no client has initialized.
var asClient = []byte(`{"protocolVersion":1,"clientInfo":{"name":"deskhand","version":"1"},` +
	`"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}`)

// serve returns the running process of a server for a caller in Go, which may
// start it whatever became of the one before.
func (h *Host) serve(ctx context.Context, id string, o PostOptions) (*life, error) {
	s, err := h.find(ctx, id)
	if errors.Is(err, ErrServerNotFound) {
		s, err = h.fresh(id), nil
	}
	if err != nil {
		return nil, err
	}
	l, err := s.ensure(ctx, o, asClient)
	if err != nil {
		h.forget(s)
	}
	return l, err
}

// Session returns a session, or [ErrSessionNotFound].
func (h *Host) Session(ctx context.Context, id string) (Session, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	if errors.Is(err, eventlog.ErrNotFound) {
		err = ErrSessionNotFound
	}
	return sessionOf(row), err
}

// Sessions lists sessions, whoever made them, by the time at which they were
// made. The cursor is empty at first; next is that of the following page, and
// empty at the end. A limit of 0 is 100.
func (h *Host) Sessions(ctx context.Context, f eventlog.SessionFilter, cursor string, limit int) (page []Session, next string, err error) {
	rows, next, err := h.cfg.Log.Sessions(ctx, f, cursor, limit)
	page = make([]Session, 0, len(rows))
	for _, row := range rows {
		page = append(page, sessionOf(row))
	}
	return page, next, err
}

// Log is the log that the host was given. Everything of a session is in its
// stream [SessionStream].
func (h *Host) Log() *eventlog.Log { return h.cfg.Log }

// Requests lists the questions of agents that are open in a session, the oldest
// first.
func (h *Host) Requests(ctx context.Context, session string) ([]eventlog.Request, error) {
	return h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, Pending: true})
}

// attend returns a process that knows the session, started and told of it if
// need be. When the server is deleted meanwhile, it looks once more what has
// become of the session.
func (h *Host) attend(ctx context.Context, id string) (*life, error) {
	l, err := h.attendNow(ctx, id)
	if errors.Is(err, ErrServerNotFound) {
		return h.attendNow(ctx, id)
	}
	return l, err
}

func (h *Host) attendNow(ctx context.Context, id string) (*life, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return nil, ErrSessionNotFound
	case err != nil:
		return nil, err
	case !slices.Contains(alive, row.State):
		return nil, ErrSessionEnded
	case row.State == eventlog.Starting:
		return nil, ErrSessionStarting
	}
	row.Server = serverOfSession(row)
	l, err := h.serve(ctx, row.Server, PostOptions{Agent: row.Agent})
	if err != nil {
		return nil, err
	}
	return l, l.restore(ctx, row)
}

// Turn is a prompt that was passed on.
type Turn struct {
	// Seq is the number of the prompt in the session's stream.
	Seq int64

	life *life
	call *call
}

// Prompt passes a prompt to a session: a list of content blocks, as ACP has
// them. It returns once it is in the log. A session whose process has ended is
// restored first.
//
// Errors, beside those of [Host.Post]: [ErrSessionNotFound], [ErrSessionEnded],
// [InvalidError].
func (h *Host) Prompt(ctx context.Context, id string, prompt json.RawMessage) (*Turn, error) {
	var blocks []json.RawMessage
	if err := json.Unmarshal(prompt, &blocks); err != nil || blocks == nil {
		return nil, &InvalidError{"prompt", "must be a list of content blocks"}
	}
	turn := &Turn{}
	err := again(func() error {
		c, err := outside("session/prompt", true, struct {
			Session string            `json:"sessionId"`
			Prompt  []json.RawMessage `json:"prompt"`
		}{id, blocks})
		if err != nil {
			return err
		}
		if turn.life, err = h.attend(ctx, id); err != nil {
			return err
		}
		turn.call, c.goesOn = c, true
		if err := turn.life.accept(ctx, c); err != nil {
			return err
		}
		if turn.Seq = c.asked; turn.Seq == 0 {
			return ErrSessionEnded // since it was looked up
		}
		return nil
	})
	return turn, err
}

// accept submits a call and waits until it is in the log.
func (l *life) accept(ctx context.Context, c *call) error {
	c.accepted = make(chan struct{})
	if err := l.begin(ctx, c); err != nil {
		return err
	}
	select {
	case <-c.accepted:
		return nil
	case r := <-c.reply:
		if r.err == nil || isClosed(c.accepted) {
			c.reply <- r // it was quick
			return nil
		}
		return r.err
	case <-l.done:
		if isClosed(c.accepted) {
			return nil // its end is told to who waits for the answer
		}
		return l.exited()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wait waits for the end of the turn and returns its result. It may be called
// once.
func (t *Turn) Wait(ctx context.Context) (json.RawMessage, error) {
	raw, err := t.life.await(ctx, t.call)
	if err != nil {
		return nil, err
	}
	return resultOf("session/prompt", raw)
}

// outside is a message that looks to all clients like that of another one. Its
// id is none that a client chooses by itself.
func outside(method string, request bool, params any) (*call, error) {
	var id *string
	if request {
		name := "deskhand-" + strings.ToLower(rand.Text())
		id = &name
	}
	env, err := parse(encode(struct {
		Version string  `json:"jsonrpc"`
		ID      *string `json:"id,omitempty"`
		Method  string  `json:"method"`
		Params  any     `json:"params"`
	}{"2.0", id, method, params}))
	return &call{env: env, origin: originGo}, err
}

// Cancel ends the turn of a session that is under way, if there is one. What
// the agent asks at the moment is answered as cancelled. A prompt that waits until
// its session is restored is no turn yet, and goes on.
func (h *Host) Cancel(ctx context.Context, id string) error {
	l, err := h.running(ctx, id)
	switch {
	case l == nil || !l.present(id):
		return err
	case l.ends(): // and what is under way with it
		return l.lostTo()
	}
	c, err := outside("session/cancel", false, map[string]string{"sessionId": id})
	if err == nil {
		_, err = l.send(ctx, c)
	}
	return err
}

// running returns the process of a session's server, or nil.
func (h *Host) running(ctx context.Context, id string) (*life, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return nil, ErrSessionNotFound
	case err != nil:
		return nil, err
	}
	s, err := h.find(ctx, serverOfSession(row))
	if errors.Is(err, ErrServerNotFound) {
		return nil, nil //nolint:nilnil // none runs
	}
	if err != nil {
		return nil, err
	}
	return s.running(), nil
}

// Answer answers a question of the agent's: request is its public id. The first
// answer counts; later ones get [ErrRequestNotFound]. The agent must run here:
// [ElsewhereError].
func (h *Host) Answer(ctx context.Context, session, request string, r Reply) error {
	rows, err := h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, PublicID: request, Pending: true})
	if err != nil {
		return err
	}
	if len(rows) == 0 || request == "" {
		return ErrRequestNotFound
	}
	for _, s := range h.all() {
		l := s.running()
		if l == nil || l.id != rows[0].Life {
			continue
		}
		return l.decide(ctx, &decision{public: request, reply: r, dir: eventlog.Client, done: make(chan error, 1)})
	}
	asker, err := h.cfg.Log.Life(ctx, rows[0].Life)
	if err != nil || !asker.ExitedAt.IsZero() {
		return cmp.Or(err, ErrRequestNotFound)
	}
	running, err := h.elsewhere(ctx, asker)
	if running {
		err = &ElsewhereError{asker.Server}
	}
	return cmp.Or(err, ErrRequestNotFound)
}

// decide submits a decision and waits for what becomes of it.
func (l *life) decide(ctx context.Context, d *decision) error {
	if err := l.submit(ctx, item{decide: d}); err != nil {
		return err
	}
	select {
	case err := <-d.done:
		return err
	case <-l.done:
		select {
		case err := <-d.done: // it came before the end
			return err
		default:
			return ErrRequestNotFound
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetPermissions changes the policy of a session, also while it is being opened,
// for what its agent asks from then on. Questions that are open stay.
func (h *Host) SetPermissions(ctx context.Context, id string, p Policy) error {
	if err := p.check(); err != nil {
		return err
	}
	return h.change(ctx, id, note{}, p.set)
}
