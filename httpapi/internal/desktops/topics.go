package desktops

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/events"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// desktopSource has the events of all desktops that a token shows, and of their recordings.
type desktopSource struct {
	fleet      *fleet.Fleet
	grant      *grants.Grant
	wanted     func(desktop.EventType) bool // types of events
	input      bool                         // the topic desktop
	recordings bool                         // the topic recordings
	from       events.Positions             // read only; empty: the stream begins now
}

// stateEvent is an event about a desktop as a whole.
type stateEvent struct {
	Type    string        `json:"type"` // status
	Time    time.Time     `json:"time"`
	Desktop string        `json:"desktop"`
	State   desktop.State `json:"state"`
	Idle    bool          `json:"idle,omitempty"` // the server stops it because it is idle
}

// Topics returns the topics of desktops.
func Topics(a *Area) events.Topics {
	return events.Topics{Names: []string{"desktop", "recordings"}, Guests: true, Begin: func(_ context.Context, r events.Request, _ events.Positions) ([]events.Source, error) {
		s := &desktopSource{
			fleet: a.fleet, grant: r.Grant, input: slices.Contains(r.Topics, "desktop"), recordings: slices.Contains(r.Topics, "recordings"), from: r.From,
			wanted: func(t desktop.EventType) bool { return len(r.Types) == 0 || slices.Contains(r.Types, string(t)) },
		}
		return []events.Source{s.run}, nil
	}}
}

// deleted is the state of a desktop that was deleted, in a stateEvent.
const deleted desktop.State = "deleted"

// followedDesktop is an instance that a source knows.
type followedDesktop struct {
	state desktop.State
	began time.Time // the start whose events are followed; zero: none

	ctx       context.Context //nolint:containedctx // ends when the desktop is deleted, and with the source
	deleted   context.CancelFunc
	followers sync.WaitGroup
}

func desktopKey(id string) string { return "desktop:" + id }

// run is a source. It begins with the state of each desktop.
func (s *desktopSource) run(ctx context.Context, send func(events.Message) bool) error {
	if s.recordings && len(s.from) > 0 && !send(events.Reset("recordings", nil)) {
		return nil
	}
	known := map[*fleet.Instance]*followedDesktop{}
	defer func() {
		for _, k := range known {
			k.end()
		}
	}()
	for {
		changed := s.fleet.Changed()
		all := s.fleet.List()
		for inst, k := range known { // first, because another desktop may have the id now
			if slices.Contains(all, inst) {
				continue
			}
			k.end()
			delete(known, inst)
			m := stateMessage(inst, deleted)
			m.Key = desktopKey(inst.ID())
			if s.input && !send(m) {
				return nil
			}
		}
		for _, inst := range all {
			if !shows(s.grant, inst.ID()) {
				continue
			}
			k := known[inst]
			if k == nil {
				k = &followedDesktop{}
				k.ctx, k.deleted = context.WithCancel(ctx)
				known[inst] = k
				if s.recordings {
					feed := followRecordings(inst, s.grant)
					k.followers.Go(func() { sendRecordings(k.ctx, feed, send) })
				}
			}
			if s.input && !s.update(ctx, inst, k, send) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// end waits until the events before the desktop's deletion were sent, or the stream has ended.
func (k *followedDesktop) end() {
	k.deleted()
	k.followers.Wait()
}

func stateMessage(inst *fleet.Instance, state desktop.State) events.Message {
	return events.Message{Name: "desktop", Data: stateEvent{"status", time.Now(), inst.ID(), state, inst.Status().Idle}}
}

// update sends the state of a desktop if it has changed, and begins to follow the events of a
// desktop that has started.
func (s *desktopSource) update(ctx context.Context, inst *fleet.Instance, k *followedDesktop, send func(events.Message) bool) bool {
	status := inst.Status()
	if status.State == k.state {
		return true
	}
	k.state = status.State
	m := stateMessage(inst, status.State)
	began := inst.Began()
	if status.Desktop == nil || began.Equal(k.began) {
		return send(m)
	}
	k.began = began
	after, lost := s.begin(inst.ID(), status.Desktop, began)
	sub := subscribe(status.Desktop, after)
	if sub == nil {
		return send(m)
	}
	start := strconv.FormatInt(began.UnixNano(), 10)
	m.Key, m.At = desktopKey(inst.ID()), events.PairOf(start, after)
	if !send(m) || lost && !send(events.Reset("desktop", map[string]any{"desktop": inst.ID()})) {
		sub.Close()
		return false
	}
	stop := context.AfterFunc(k.ctx, func() {
		if ctx.Err() != nil {
			sub.Close() // and not Finish, which ends the run of a person's typing
			return
		}
		sub.Finish()
	})
	k.followers.Go(func() {
		defer sub.Close()
		defer stop()
		s.follow(inst.ID(), start, sub, send)
	})
	return true
}

// begin returns the number of the event after which the stream continues. lost reports that
// the client has missed events.
func (s *desktopSource) begin(id string, d fleet.Desktop, began time.Time) (after uint64, lost bool) {
	now := subscribe(d, 0)
	if now == nil {
		return 0, false
	}
	_, newest := now.Recent(0)
	now.Close()
	start, last, resumes := s.from.Pair(desktopKey(id))
	switch {
	case !resumes:
		return newest, false
	case start != strconv.FormatInt(began.UnixNano(), 10), last > newest, last == 0 && newest > 0:
		return newest, true
	}
	return last, false
}

// follow sends the events of one start of a desktop.
func (s *desktopSource) follow(id, start string, sub *desktop.Subscription, send func(events.Message) bool) {
	since := s.grant.ShownSince()
	for e := range sub.Events() {
		m := events.Message{Key: desktopKey(id), At: events.PairOf(start, e.Seq)}
		switch {
		case e.Type == desktop.EventGap:
			m.Name, m.Data = "reset", events.Reset("desktop", map[string]any{"desktop": id}).Data
		case !e.Time.Before(since) && s.wanted(e.Type):
			m.Name, m.Data = "desktop", e
		}
		if !send(m) {
			return
		}
	}
}

// sendRecordings sends the changes of a desktop's recordings until ctx ends, and closes the feed.
func sendRecordings(ctx context.Context, feed *recordingFeed, send func(events.Message) bool) {
	defer feed.Close()
	for ctx.Err() == nil {
		select {
		case <-feed.Changed():
		case <-ctx.Done(): // the last changes may not have been sent
		}
		for _, e := range feed.events() {
			if !send(events.Message{Name: "recordings", Data: e}) {
				return
			}
		}
	}
}
