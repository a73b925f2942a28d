package opencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

const (
	// hubEvents and hubBytes are how many of the newest events are kept for slow streams.
	// The stream of a client that is further behind ends. The client connects again.
	hubEvents = 16 << 10
	hubBytes  = 32 << 20

	// heartbeat is the time between heartbeats of an event stream.
	heartbeat = 10 * time.Second

	// interruptedTime is how long new streams get the end of a turn that was interrupted. Clients
	// that lost their stream with the server wait for it. The terminal UI connects again within
	// 30 seconds, and pages in the background within a minute.
	interruptedTime = 5 * time.Minute

	// pollOthers is how often the sessions of other servers with the same log are read.
	pollOthers = 2 * time.Second

	entriesPage = 1000

	// followedBytes is how many bytes of a session's messages are kept to make the next events.
	followedBytes = 8 << 20
)

// hubEvent is an event as both streams write it.
type hubEvent struct {
	directory string // empty: it is for all
	local     []byte // of GET /event
	global    []byte // of GET /global/event
}

// hub makes each event once, for all streams. It follows the logs of the sessions while there
// are streams.
type hub struct {
	*area

	joining sync.Mutex // held while the first stream starts the hub or the last one stops it
	streams int
	stop    func()

	mu     sync.Mutex // guards the fields below
	events []hubEvent
	first  int64 // the number of events[0]
	bytes  int
	more   chan struct{} // closed when there is another event
}

func newHub(a *area) *hub { return &hub{area: a, more: make(chan struct{})} }

// join adds a stream. It returns the number of the next event.
func (h *hub) join(ctx context.Context) (next int64, err error) {
	h.joining.Lock()
	defer h.joining.Unlock()
	if h.streams == 0 {
		host, err := h.Host.Get(ctx)
		if err != nil {
			return 0, err
		}
		f := newFollower(h, host)
		run, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); f.run(run) }()
		h.stop = func() { cancel(); <-done }
	}
	h.streams++
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first + int64(len(h.events)), nil
}

// leave removes a stream.
func (h *hub) leave() {
	h.joining.Lock()
	defer h.joining.Unlock()
	if h.streams--; h.streams == 0 {
		h.stop()
	}
}

// publish passes an event that no log has to all streams. It does not wait for them.
func (a *area) publish(directory, kind string, properties any) {
	a.hub.send(directory, opencode.Event{ID: "evt_" + rand.Text(), Type: kind, Properties: properties})
}

// globalEvent is an event of GET /global/event.
type globalEvent struct {
	Directory string `json:"directory"`
	Payload   any    `json:"payload"`
}

// encode returns an event as both streams write it.
func encode(directory string, e opencode.Event) (out hubEvent, err error) {
	out.directory = directory
	if out.local, err = plainjson.Marshal(e); err == nil {
		named := directory
		if named == "" {
			named = "global"
		}
		out.global, err = plainjson.Marshal(globalEvent{named, json.RawMessage(out.local)})
	}
	return out, err
}

func (h *hub) send(directory string, events ...opencode.Event) {
	var all []hubEvent
	for _, e := range events {
		one, err := encode(directory, e)
		if err != nil {
			h.Logger.Error("encode an event", "type", e.Type, "error", err)
			continue
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range all {
		h.bytes += len(e.local) + len(e.global)
	}
	h.events = append(h.events, all...)
	for len(h.events) > hubEvents || h.bytes > hubBytes && len(h.events) > 1 {
		h.bytes -= len(h.events[0].local) + len(h.events[0].global)
		h.events[0] = hubEvent{}
		h.events = h.events[1:]
		h.first++
	}
	close(h.more)
	h.more = make(chan struct{})
}

// after returns the events from a number on, or a channel that is closed when there is one.
// It returns io.EOF if the first of them is no longer kept.
func (h *hub) after(next int64) (events []hubEvent, more <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if next < h.first {
		return nil, nil, io.EOF
	}
	return slices.Clone(h.events[next-h.first:]), h.more, nil
}

// eventRoutes are the routes of event streams.
func (a *area) eventRoutes() []route {
	return []route{
		{http.MethodGet, "/event", func(c *call) (any, error) { return a.follow(c, false), nil }},
		{http.MethodGet, "/global/event", func(c *call) (any, error) { return a.follow(c, true), nil }},
	}
}

// follow streams the events of a directory, or of all.
func (a *area) follow(c *call, global bool) *rest.EventsOutput {
	directory := ""
	if c.named && !global {
		directory = c.directory
	}
	var next int64
	var interrupted []string // ids of sessions that the stream has not told of
	joined, greeted := false, false
	beat := time.Now().Add(heartbeat)
	own := func(kind string) []hubEvent {
		beat = time.Now().Add(heartbeat)
		e, err := encode("", opencode.Event{ID: "evt_" + rand.Text(), Type: kind, Properties: struct{}{}})
		if err != nil {
			return nil // its members can be encoded
		}
		return []hubEvent{e}
	}
	return rest.AnswerFeed(a.API, rest.Feed[[]hubEvent]{
		Endless: true,
		Open: func() *rest.Problem {
			var err error
			if next, err = a.hub.join(c.ctx); err != nil {
				return a.Fail(c.ctx, rest.Route{ID: "opencode events"}, err)
			}
			joined = true
			if interrupted, err = a.interrupted(c.ctx, directory); err != nil {
				return a.Fail(c.ctx, rest.Route{ID: "opencode events"}, err)
			}
			return nil
		},
		Next: func(ctx context.Context) ([]hubEvent, error) {
			if !greeted {
				greeted = true
				return own("server.connected"), nil
			}
			for len(interrupted) > 0 {
				id := interrupted[0]
				interrupted = interrupted[1:]
				events, err := a.interruption(ctx, id)
				if err != nil || len(events) > 0 {
					return events, err
				}
			}
			for {
				events, more, err := a.hub.after(next)
				if err != nil {
					return nil, err
				}
				next += int64(len(events))
				events = slices.DeleteFunc(events, func(e hubEvent) bool {
					return directory != "" && e.directory != "" && e.directory != directory
				})
				if len(events) > 0 {
					return events, nil
				}
				wait := time.NewTimer(time.Until(beat))
				select {
				case <-more:
				case <-wait.C:
					return own("server.heartbeat"), nil
				case <-ctx.Done():
					wait.Stop()
					return nil, ctx.Err()
				}
				wait.Stop()
			}
		},
		Write: func(_ context.Context, w *rest.EventWriter, events []hubEvent) bool {
			for _, e := range events {
				if global {
					w.Write("", 0, e.global)
				} else {
					w.Write("", 0, e.local)
				}
			}
			return true
		},
		Close: func() {
			if joined {
				a.hub.leave()
			}
		},
	})
}

// interrupted returns the ids of the sessions of a directory, or of all, whose agents ended in the middle
// of a turn a short time ago.
func (a *area) interrupted(ctx context.Context, directory string) (ids []string, err error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	f := eventlog.SessionFilter{States: []eventlog.State{eventlog.Interrupted}, UpdatedSince: time.Now().Add(-interruptedTime), Newest: true}
	err = eachSession(ctx, host, f, mostSessions, func(s agents.Session) {
		if directory == "" || s.Cwd == directory {
			ids = append(ids, s.ID)
		}
	})
	return ids, err
}

// interruption returns the events with which the last turn of a session was interrupted. It
// returns none if there is a newer turn.
func (a *area) interruption(ctx context.Context, id string) (all []hubEvent, err error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	s, err := host.Session(ctx, id)
	if errors.Is(err, agents.ErrSessionNotFound) { // it was deleted meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var bad error
	err = a.withTranscript(ctx, host, s, func(t *opencode.Transcript) {
		for _, e := range t.Interruption() {
			var one hubEvent
			if one, bad = encode(s.Cwd, e); bad != nil {
				return
			}
			all = append(all, one)
		}
	})
	return all, cmp.Or(err, bad)
}

// follower follows the logs of all sessions and sends their events.
type follower struct {
	*hub
	host     *agents.Host
	watch    *agenthost.Watch
	begun    time.Time
	sessions map[string]*followed
	projects map[string]project
}

// followed is a session that has changed since the follower began.
type followed struct {
	sent       string // the session as the clients have it
	directory  string
	known      bool // created was sent, or the session is older than the follower
	transcript *opencode.Transcript
	applied    int64 // the last entry that the transcript has
}

func newFollower(h *hub, host *agents.Host) *follower {
	return &follower{
		hub: h, host: host, watch: h.Host.WatchEntries(), begun: time.Now(), sessions: map[string]*followed{}, projects: map[string]project{},
	}
}

// run follows the logs until ctx ends.
func (f *follower) run(ctx context.Context) {
	defer f.watch.Close()
	var others <-chan time.Time
	if f.host.Log().Shared() {
		ticker := time.NewTicker(pollOthers)
		defer ticker.Stop()
		others = ticker.C
	}
	for ctx.Err() == nil {
		ids, grown := []string(nil), map[string]int64(nil)
		select {
		case <-f.watch.Changed():
			ids, grown = f.watch.Take(), f.watch.TakeGrown()
		case <-others:
			ids, grown = f.others(ctx)
		case <-ctx.Done():
			return
		}
		// Clients learn of a new session before its messages, and of other changes after
		// the messages that cause them.
		f.tell(ctx, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return f.sessions[id] != nil }))
		for _, id := range slices.Sorted(maps.Keys(grown)) {
			f.grow(ctx, id, grown[id])
		}
		f.tell(ctx, ids)
	}
}

// others returns the sessions that other servers with the same log have changed.
func (f *follower) others(ctx context.Context) (ids []string, grown map[string]int64) {
	grown = map[string]int64{}
	filter := eventlog.SessionFilter{UpdatedSince: time.Now().Add(-2 * pollOthers), Newest: true}
	err := eachSession(ctx, f.host, filter, entriesPage, func(s agents.Session) {
		ids, grown[s.ID] = append(ids, s.ID), -1
	})
	if err != nil {
		f.log(ctx, "read the sessions of other servers", err)
		return nil, nil
	}
	return ids, grown
}

func (f *follower) log(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		f.Logger.Warn("events of OpenCode's API", "cannot", what, "error", err)
	}
}

// session returns what is known of a session.
func (f *follower) session(id string) *followed {
	s := f.sessions[id]
	if s == nil {
		s = &followed{}
		f.sessions[id] = s
	}
	return s
}

// tell sends the sessions that differ from what the clients know.
func (f *follower) tell(ctx context.Context, ids []string) {
	for _, id := range ids {
		row, err := f.host.Session(ctx, id)
		if err != nil {
			if !errors.Is(err, agents.ErrSessionNotFound) {
				f.log(ctx, "read a session", err)
			}
			continue
		}
		info, deleted, err := f.describe(ctx, row, f.projects)
		if err != nil || deleted {
			continue
		}
		text, err := plainjson.Marshal(info)
		s := f.session(id)
		if err != nil || s.sent == string(text) {
			continue
		}
		kind := "session.updated"
		if !s.known && row.CreatedAt.After(f.begun) {
			kind = "session.created"
		}
		s.sent, s.directory, s.known = string(text), row.Cwd, true
		f.publish(row.Cwd, kind, map[string]any{"sessionID": id, "info": info})
	}
}

// grow sends the events of the entries of a session after an entry. If that is negative, it
// sends those that are younger than the follower.
func (f *follower) grow(ctx context.Context, id string, after int64) {
	s := f.session(id)
	if s.transcript == nil {
		row, err := f.host.Session(ctx, id)
		if err != nil {
			if !errors.Is(err, agents.ErrSessionNotFound) { // it is being copied
				f.log(ctx, "read a session", err)
			}
			return
		}
		s.transcript, s.directory = f.newTranscript(row, followedBytes), row.Cwd
	}
	for {
		entries, err := f.host.Log().Read(ctx, agents.SessionStream(id), s.applied, entriesPage)
		if err != nil {
			f.log(ctx, "read the log of a session", err)
			return
		}
		for _, e := range entries {
			events := s.transcript.Apply(e)
			if s.applied = e.Seq; e.Seq > after && (after >= 0 || e.At.After(f.begun)) {
				f.send(s.directory, events...)
			}
		}
		if len(entries) == 0 {
			s.transcript.Trim()
			return
		}
	}
}
