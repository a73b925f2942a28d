package events

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Topics is what an area adds to the stream.
type Topics struct {
	Names  []string // such as desktop; one that ends with a colon is followed by an id
	Guests bool     // tokens that show only desktops may follow them
	Admin  bool     // only tokens for everything may follow them

	// Begin returns the sources of the topics that a request names. It adds the positions at
	// which they begin to at.
	Begin func(ctx context.Context, r Request, at Positions) ([]Source, error)
}

// allows reports whether a token may follow the topics.
func (t Topics) allows(g *grants.Grant) bool {
	needed := grants.ScopeSupervise
	switch {
	case t.Admin:
		needed = grants.ScopeAdmin
	case t.Guests:
		needed = grants.ScopeView
	}
	return g == nil || g.Scope.Allows(needed)
}

// Request is what a client asks of the topics of an area.
type Request struct {
	Grant  *grants.Grant
	Topics []string
	From   Positions // empty: the stream begins now
	Types  []string  // of events of desktops; empty: all
	Raw    bool      // with the agents' own messages
}

// Config configures the route of events.
type Config struct {
	Topics []Topics

	// Enter counts a stream of a request until leave is called.
	Enter func(*rest.Request) (leave func(), bad *rest.Problem)

	// Release ends the control that an actor has of desktops.
	Release func(g *grants.Grant, holder string)
}

// area is the area of events.
type area struct {
	rest.Group
	Config
}

type eventsInput struct {
	Topics      string `query:"topics" maxLength:"2048" doc:"Topics, separated by commas: desktop, recordings, sessions, session:ID, permissions, processes, config. Defaults to all that the token may follow, without session:ID"`
	Types       string `query:"types" pattern:"^[a-z_]+(,[a-z_]+)*$" doc:"Types of events of the topic desktop, such as action,control; defaults to all"`
	Raw         bool   `query:"include_raw" doc:"Include the agent's raw messages in the topics session:ID"`
	Holder      string `query:"holder" maxLength:"64" doc:"Name, as in the header Deskhand-Actor, of an actor that loses control of all desktops when this stream ends"`
	After       string `query:"after" maxLength:"8192" doc:"The same as Last-Event-ID, for browsers that open another stream"`
	LastEventID string `header:"Last-Event-ID" doc:"Id of the last event that the client received; the stream continues after it"`
}

const aboutEvents = `One stream of server-sent events for a whole front end. The name of an event is its topic, or session for a topic session:ID. The data is JSON with a member type.

desktop: the events of all desktops that the token shows, as GET /v1/desktop/events has them, with the member desktop. An event of the type status has the state of a desktop: first for each
desktop, then after each change; the state deleted is the last one. recordings: changes of recordings, as there. sessions: created, updated or ended, with the session as
GET /v1/sessions has it; changes that follow each other closely may come as one. session:ID: the events of a session, as GET /v1/sessions/{sessionId}/events has them.
permissions: requested, first for each open request, or answered. processes: created, exited or deleted, of processes that clients started. config: updated, approved or deleted, of
the configuration of a folder.

The id of an event has the positions of all topics. A client that connects again with Last-Event-ID misses nothing; the event of a session or a desktop's state may come again. Where the
history is gone, an event reset names the topic, and the desktop if there is one, that the client has to read again. An event end, with a reason, is the last one before the server ends the
stream: slow if the client did not read for a while. A token of the scope view, control or agent can follow desktop and recordings, and a token of the scope supervise all topics but processes and config.`

// Register adds the route of events.
func Register(api *rest.API, cfg Config) {
	a := &area{rest.Group{API: api}, cfg}
	r := rest.Route{Tag: "Events", Query: true, Scope: grants.ScopeView, Content: rest.EventContent()}
	r = r.Get("followAllEvents", "/v1/events", "Stream the events of desktops, sessions, permissions and processes").WithAbout(aboutEvents)
	rest.Add(a.Group, r.WithErrors(http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable), a.follow)
}

// mostTopics bounds the topics of a stream.
const mostTopics = 32

// find returns the index of the area that has a topic, or -1.
func (a *area) find(topic string) int {
	return slices.IndexFunc(a.Topics, func(t Topics) bool {
		return slices.ContainsFunc(t.Names, func(name string) bool {
			return name == topic && !strings.HasSuffix(name, ":") || strings.HasSuffix(name, ":") && len(topic) > len(name) && strings.HasPrefix(topic, name)
		})
	})
}

// choose returns the topics of a request by area.
func (a *area) choose(text string, g *grants.Grant) (chosen map[int][]string, err error) {
	chosen = map[int][]string{}
	var allowed []string
	for i, t := range a.Topics {
		for _, name := range t.Names {
			if !t.allows(g) {
				continue
			}
			if strings.HasSuffix(name, ":") {
				name += "ID"
			} else if text == "" {
				chosen[i] = append(chosen[i], name)
			}
			allowed = append(allowed, name)
		}
	}
	if text == "" {
		return chosen, nil
	}
	topics := strings.Split(text, ",")
	if len(topics) > mostTopics {
		return nil, rest.InvalidField("topics", fmt.Sprintf("topics must name at most %d of %s", mostTopics, strings.Join(allowed, ", ")))
	}
	for _, topic := range topics {
		switch i := a.find(topic); {
		case i < 0:
			return nil, rest.InvalidField("topics", fmt.Sprintf("topics: there is no topic %.100q; there are %s", topic, strings.Join(allowed, ", ")))
		case !a.Topics[i].allows(g):
			return nil, rest.PermissionDenied.Problem(fmt.Sprintf("permission denied: this token has the scope %s, which can follow %s", g.Scope, strings.Join(allowed, ", ")))
		case !slices.Contains(chosen[i], topic):
			chosen[i] = append(chosen[i], topic)
		}
	}
	return chosen, nil
}

func (a *area) follow(ctx context.Context, in *eventsInput) (*rest.EventsOutput, error) {
	r := rest.RequestIn(ctx)
	chosen, err := a.choose(in.Topics, r.Grant)
	if err != nil {
		return nil, err
	}
	from, ok := parsePositions(cmp.Or(in.LastEventID, in.After))
	if !ok {
		return nil, rest.InvalidField("Last-Event-ID", "Last-Event-ID must be the id of an event of this stream")
	}
	var f *feed
	leave := func() {}
	return rest.AnswerFeed(a.API, rest.Feed[[]Message]{
		Open: func() *rest.Problem {
			end, bad := a.Enter(r)
			if bad != nil {
				return bad
			}
			leave = end
			at := Positions{}
			sources, err := a.begin(ctx, in, Request{Grant: r.Grant, From: from, Raw: in.Raw}, chosen, at)
			if err != nil {
				return a.Fail(ctx, rest.Route{ID: "followAllEvents"}, err)
			}
			f = newFeed(at, slowTime, sources)
			return nil
		},
		Next:  func(ctx context.Context) ([]Message, error) { return f.next(ctx) },
		Write: func(_ context.Context, w *rest.EventWriter, batch []Message) bool { return f.write(w, batch) },
		Close: func() {
			if f != nil {
				f.close()
				if in.Holder != "" {
					a.Release(r.Grant, in.Holder)
				}
			}
			leave()
		},
	}), nil
}

// begin returns the sources of the chosen topics.
func (a *area) begin(ctx context.Context, in *eventsInput, r Request, chosen map[int][]string, at Positions) (all []Source, err error) {
	if in.Types != "" {
		r.Types = strings.Split(in.Types, ",")
	}
	for i, topics := range chosen {
		r.Topics = topics
		sources, err := a.Topics[i].Begin(ctx, r, at)
		if err != nil {
			return nil, err
		}
		all = append(all, sources...)
	}
	return all, nil
}
