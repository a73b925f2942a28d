package sessions

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/events"
)

const sessionPrefix = "session:"

// Topics returns the topics of sessions for the event stream of the server.
func Topics(cfg Config) events.Topics {
	a := &area{Config: cfg}
	return events.Topics{Names: []string{"sessions", "permissions", sessionPrefix}, Begin: a.beginTopics}
}

// beginTopics returns the sources of topics of sessions.
func (a *area) beginTopics(ctx context.Context, r events.Request, at events.Positions) ([]events.Source, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, agenthost.Names{}.Explain(err)
	}
	var all []events.Source
	s := &sessionsSource{
		area: a, host: host, grant: r.Grant, begin: time.Now(), resumes: len(r.From) > 0,
		sessions: slices.Contains(r.Topics, "sessions"), permissions: slices.Contains(r.Topics, "permissions"),
	}
	for _, topic := range r.Topics {
		id, one := strings.CutPrefix(topic, sessionPrefix)
		if !one {
			continue
		}
		_, err := host.Session(ctx, id)
		var source *oneSource
		if err == nil {
			source, err = newOneSource(ctx, a.Host.Events(id), id, r.From, r.Raw)
		}
		if err != nil {
			return nil, agenthost.Names{Session: id}.Explain(err)
		}
		at[sessionKey(id)] = strconv.FormatInt(source.after, 10)
		all = append(all, source.run)
	}
	if !s.sessions && !s.permissions {
		return all, nil
	}
	if since, ok := r.From.Number(sessionsKey); ok {
		s.begin = time.UnixMicro(since)
	}
	at[sessionsKey] = strconv.FormatInt(s.begin.UnixMicro(), 10)
	s.watch = a.Host.Watch()
	return append(all, s.run), nil
}
