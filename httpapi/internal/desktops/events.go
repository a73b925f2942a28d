package desktops

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

type eventsInput struct {
	Desktop     string `path:"desktop" default:"main"`
	Types       string `query:"types" pattern:"^[a-z_]+(,[a-z_]+)*$" doc:"Only events of these types, as in control,recording; all when left out"`
	Holder      string `query:"holder" maxLength:"64" doc:"An actor, named as in the header Deskhand-Actor, whose control is released when this stream ends"`
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"Number of the last event seen: the ones after it come first"`
}

func (a *Area) registerEvents() {
	r := rest.Route{Tag: "Events", Query: true, Other: runtimeFailed}
	r.Content = rest.EventContent()
	act(a, r.Get("followEvents", "/events", "Follow what happens on the desktop").WithAbout(aboutEvents), a.followEvents)
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
			var ok bool
			if leave, ok = a.enterEvents(r); !ok {
				return rest.Unavailable.Problem("too many event streams are open; try again later").WithHeader(fiber.HeaderRetryAfter, "5")
			}
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

// enterEvents counts an event stream until leave is called. ok is false if there are too many.
func (a *Area) enterEvents(r *rest.Request) (leave func(), ok bool) {
	if !r.Limited() {
		return func() {}, true
	}
	own := r.Grant.Streams()
	select {
	case own <- struct{}{}:
	default:
		return nil, false
	}
	select {
	case a.eventStreams <- struct{}{}:
	default:
		<-own
		return nil, false
	}
	return func() { <-a.eventStreams; <-own }, true
}

// release releases the control of a caller that has disconnected.
func (a *Area) release(c controller, caller desktop.Actor) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := c.ReleaseControl(ctx, caller); err != nil {
		a.cfg.Logger.Debug("release control of a caller that has disconnected", "error", err)
	}
}

// partingTime bounds the release of a caller's keys.
const partingTime = 5 * time.Second

const aboutEvents = `A stream of server-sent events: the event's name is its type, its id counts from 1, its data is JSON. It ends
with the desktop. What a person typed is told as a number of characters, once the person pauses; a token of a scope other than
admin is told nothing that happened before it was made. An event named gap tells how many were missed. One named recording tells what a recording is like whenever
that changes, with the status deleted once it is gone; it has no id and is not repeated: list the recordings after connecting again. A recording that began
before the token was made is told while it goes on, and then as deleted.`

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
