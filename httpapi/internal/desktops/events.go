package desktops

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

type eventsInput struct {
	Desktop     string `path:"desktop" default:"main"`
	Types       string `query:"types" pattern:"^[a-z_]+(,[a-z_]+)*$" doc:"Types of events, separated by commas, such as control,recording; defaults to all"`
	Holder      string `query:"holder" maxLength:"64" doc:"Name, as in the header Deskhand-Actor, of an actor that loses control when this stream ends"`
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"Number of the last event that the client received; the stream starts after it"`
}

func (a *Area) registerEvents() {
	r := rest.Route{Tag: "Events", Query: true, Other: runtimeFailed}
	r.Content, r.Enter = rest.EventContent(), a.enter(a.fleet.Find) // a stream does not keep a desktop that is idle
	act(a, r.Get("followEvents", "/events", "Stream the events of the desktop").WithAbout(aboutEvents), a.followEvents)
}

func (a *Area) followEvents(ctx context.Context, in *eventsInput) (*rest.EventsOutput, error) {
	d, err := running[interface {
		Subscribe(after uint64) *desktop.Subscription
	}](a, in.Desktop)
	if err != nil {
		return nil, err
	}
	inst, err := a.fleet.Find(in.Desktop)
	if err != nil {
		return nil, err
	}
	var after uint64
	if in.LastEventID != "" {
		if after, err = strconv.ParseUint(in.LastEventID, 10, 64); err != nil {
			return nil, rest.InvalidRequest.Problem("invalid request: Last-Event-ID must be a non-negative integer")
		}
	}
	var feed *eventFeed
	leave := func() {}
	r := rest.RequestIn(ctx)
	return rest.AnswerFeed(a.API, rest.Feed[streamEvent]{
		Open: func() *rest.Problem {
			end, bad := EnterStream(a, r)
			if bad != nil {
				return bad
			}
			leave = end
			feed = newEventFeed(d.Subscribe(after), inst, in.Types, r.Grant)
			return nil
		},
		Next: func(ctx context.Context) (streamEvent, error) { return rest.Receive(ctx, feed.events) },
		Write: func(_ context.Context, w *rest.EventWriter, e streamEvent) (more bool) {
			if e.recording != nil {
				return w.WriteJSON(recordingEventType, 0, e.recording)
			}
			return w.WriteJSON(string(e.Type), int64(e.Seq), e.Event)
		},
		Close: func() {
			if feed == nil {
				return
			}
			feed.close()
			leave()
			if c, ok := d.(controller); ok && in.Holder != "" {
				a.release(c, r.Grant.Actor(in.Holder))
			}
		},
	}), nil
}

// maxEventStreams is how many event streams may be open with tokens of a scope other than
// admin. Each action is sent to each of them.
const maxEventStreams = 128

const aboutEvents = `A stream of server-sent events. The name of an event is its type, ids start at 1, and the data is JSON.
The stream ends with the desktop. Text that a person types is reported as a number of characters, after the person pauses. An event named gap has the number of events that were
dropped because the client was too slow or connected too late. An event named recording describes a recording after each change, with the status deleted after its deletion. It has no id
and is not replayed: list the recordings after reconnecting. A token of the scope view, control or agent gets events from its creation on. Of recordings that began
before that, it gets the changes while they run, and the status deleted when they end.`

// recordingEventType is the type of events about recordings.
const recordingEventType = "recording"

// recordingEvent is the change of a recording, on the wire.
type recordingEvent struct {
	Type      string        `json:"type"`
	Time      time.Time     `json:"time"`
	Desktop   string        `json:"desktop"`
	Recording recordingInfo `json:"recording"`

	info recording.Info
}

func eventOfRecording(desktopID string, c fleet.RecordingChange) *recordingEvent {
	return &recordingEvent{recordingEventType, c.Time, desktopID, infoOfRecording(c.Info), c.Info}
}

// streamEvent is one of a desktop, or about one of its recordings.
type streamEvent struct {
	desktop.Event
	recording *recordingEvent
}

// eventFeed has the events of a desktop and those about its recordings in one
// channel.
type eventFeed struct {
	desktop string // id
	events  chan streamEvent
	stop    chan struct{}
	done    chan struct{}
}

// newEventFeed follows both sources until close. types are the wanted ones, with commas
// between; empty: all. The feed leaves out what the token does not show.
func newEventFeed(sub *desktop.Subscription, inst *fleet.Instance, types string, g *grants.Grant) *eventFeed {
	f := &eventFeed{desktop: inst.ID(), events: make(chan streamEvent), stop: make(chan struct{}), done: make(chan struct{})}
	var wanted []string
	if types != "" {
		wanted = append(strings.Split(types, ","), string(desktop.EventGap))
	}
	changes := inst.SubscribeRecordings()
	filter := newRecordingFilter(g, inst.ActiveRecordings())
	go func() {
		defer close(f.done)
		defer close(f.events)
		defer sub.Close()
		defer changes.Close()
		f.run(sub.Events(), changes, filter, func(t string) bool { return wanted == nil || slices.Contains(wanted, t) })
	}()
	return f
}

func (f *eventFeed) run(events <-chan desktop.Event, recordings *fleet.RecordingSubscription, filter *recordingFilter, wanted func(string) bool) {
	since := filter.grant.ShownSince()
	send := func(e streamEvent) bool {
		select {
		case f.events <- e:
			return true
		case <-f.stop:
			return false
		}
	}
	tell := func() bool {
		for _, change := range recordings.Take() {
			if e := filter.filter(eventOfRecording(f.desktop, change)); e != nil && wanted(recordingEventType) && !send(streamEvent{recording: e}) {
				return false
			}
		}
		return true
	}
	for {
		select {
		case e, open := <-events:
			if !open {
				tell() // how they ended, which was before the desktop did
				return
			}
			if !e.Time.Before(since) && wanted(string(e.Type)) && !send(streamEvent{Event: e}) {
				return
			}
		case <-recordings.Changed():
			if !tell() {
				return
			}
		case <-f.stop:
			return
		}
	}
}

// close ends the feed and waits for that.
func (f *eventFeed) close() {
	close(f.stop)
	<-f.done
}

// EnterStream counts an event stream of a request until leave is called. The problem is nil
// if there is a place for it.
func EnterStream(a *Area, r *rest.Request) (leave func(), bad *rest.Problem) {
	return a.eventStreams.Enter(r, "too many event streams are open")
}

// shows reports whether a token is good for a desktop.
func shows(g *grants.Grant, id string) bool { return g == nil || g.Desktop == "" || g.Desktop == id }

// subscribe returns the events of a running desktop after the one with that number, as
// desktop.Desktop.Subscribe does. It returns nil for a kind of desktop without events.
func subscribe(d fleet.Desktop, after uint64) *desktop.Subscription {
	if s, ok := d.(interface {
		Subscribe(after uint64) *desktop.Subscription
	}); ok {
		return s.Subscribe(after)
	}
	return nil
}

// recordingFeed has the changes of a desktop's recordings that a token shows. It is for one
// goroutine, and must be closed.
type recordingFeed struct {
	*fleet.RecordingSubscription
	desktop string
	filter  *recordingFilter
}

// followRecordings returns a feed of later changes.
func followRecordings(inst *fleet.Instance, g *grants.Grant) *recordingFeed {
	changes := inst.SubscribeRecordings()
	return &recordingFeed{changes, inst.ID(), newRecordingFilter(g, inst.ActiveRecordings())}
}

// events returns the events since the last call, for JSON.
func (f *recordingFeed) events() (all []any) {
	for _, change := range f.Take() {
		if e := f.filter.filter(eventOfRecording(f.desktop, change)); e != nil {
			all = append(all, e)
		}
	}
	return all
}
