package desktops

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/recording/timeline"
)

type (
	timelineInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		From    int64  `query:"from" minimum:"0" maximum:"31622400000" doc:"Milliseconds from the start of the video"`
		To      int64  `query:"to" minimum:"0" maximum:"31622400000" doc:"End, as from; defaults to the end of the video"`
		After   uint64 `query:"after" doc:"Return entries with a higher seq; pass next of the previous page"`
		Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"Maximum number of entries; a page also ends at 4 MiB"`
	}

	timelinePage struct {
		Entries []timeline.Entry `json:"entries" nullable:"false" doc:"Entries in the order of seq, which is the order in which they were added"`
		Next    uint64           `json:"next,omitempty" doc:"Value of after for the next page; omitted on the last page"`
	}

	markerBody struct {
		Title string `json:"title" minLength:"1" maxLength:"200"`
		Text  string `json:"text,omitempty" maxLength:"4096"`
		Color string `json:"color,omitempty" doc:"Color for players" example:"#ff8800"`
		At    *int64 `json:"at,omitempty" doc:"Milliseconds from the start of the video; defaults to now while recording"`
	}

	eventBody struct {
		Type  string          `json:"type" maxLength:"64" doc:"Name of your choice: lower-case letters, digits and _ . -" example:"agent_message"`
		Title string          `json:"title,omitempty" maxLength:"200" doc:"Text of the caption; an event without a title has no caption"`
		Data  json.RawMessage `json:"data,omitempty" doc:"Any JSON, at most 64 KiB. It is stored unredacted: do not include secrets"`
		Time  *time.Time      `json:"time,omitempty" doc:"Time of the event; defaults to now"`
	}

	textInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		From    int64  `query:"from" minimum:"0" maximum:"31622400000" doc:"Milliseconds from the start of the video"`
		To      int64  `query:"to" minimum:"0" maximum:"31622400000" doc:"End, as from; defaults to the end of the video"`
	}

	textOutput struct {
		ContentType string `header:"Content-Type"`
		Cache       string `header:"Cache-Control"`
		Body        []byte
	}
)

const aboutTimeline = `Entries are actions with their actors, windows, changes of control, markers, and events that clients added. Their times
count from the start of the video. For text that a person typed, or that was typed as a secret, an entry has only the number of characters.`

func (a recordings) registerTimeline(r rest.Route) {
	r.Errors = []int{http.StatusNotFound, http.StatusBadRequest}
	get := r.Get("getRecordingTimeline", "/recordings/{id}/timeline", "Get the timeline of a recording").WithAbout(aboutTimeline)
	get.Large = true
	add(a.Area, get, func(ctx context.Context, in *timelineInput) (*rest.Output[timelinePage], error) {
		store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
		if err != nil {
			return nil, err
		}
		span := timeline.Span{From: inVideo(in.From), To: inVideo(in.To)}
		entries, next, err := store.Timeline(in.ID, timeline.Query{After: in.After, Limit: in.Limit, Span: span})
		return rest.Reply(timelinePage{entries, next}, missing(in.ID, err))
	})
	a.addCaptions(r.Get("getRecordingCaptions", "/recordings/{id}/captions.vtt", "Get the captions of a recording"), timeline.VTTCaptions)
	a.addCaptions(r.Get("getRecordingChapters", "/recordings/{id}/chapters.vtt", "Get the chapters of a recording"), timeline.VTTChapters)
	r = r.WithErrors(http.StatusConflict)
	r.Status = http.StatusCreated
	addNote(a, r.Post("markRecording", "/recordings/{id}/markers", "Add a marker to a recording").
		WithAbout("A marker starts a chapter. Ended recordings accept markers too.").WithErrors(http.StatusInsufficientStorage),
		func(b *markerBody, of recording.Info) time.Time {
			if b.At == nil {
				return time.Time{}
			}
			return of.Started.Add(inVideo(*b.At))
		},
		func(store *recording.Store, id string, b *markerBody) (timeline.Entry, error) {
			m := timeline.Marker{Title: b.Title, Text: b.Text, Color: b.Color}
			if b.At != nil {
				at := timeline.Milliseconds(*b.At)
				m.At = &at
			}
			return store.Mark(id, m)
		})
	addNote(a, r.Post("addRecordingEvent", "/recordings/{id}/events", "Add an event to a recording").
		WithAbout("Adds an event, such as a message or a tool call of an agent, to the timeline of a running recording."),
		func(b *eventBody, _ recording.Info) time.Time { return rest.Value(b.Time) },
		func(store *recording.Store, id string, b *eventBody) (timeline.Entry, error) {
			return store.AddEvent(id, timeline.Event{Type: desktop.EventType(b.Type), Title: b.Title, Data: b.Data, Time: rest.Value(b.Time)})
		})
}

// addNote adds a route whose body do makes an entry of the timeline. moment returns the time
// that a body names, or zero. It must not be before the token was made, as the token does not
// show what happened before.
func addNote[B any](a recordings, r rest.Route, moment func(*B, recording.Info) time.Time,
	do func(store *recording.Store, id string, b *B) (timeline.Entry, error),
) {
	add(a.Area, r, func(ctx context.Context, in *itemInput[B]) (*rest.Output[timeline.Entry], error) {
		store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingListed)
		if err != nil {
			return nil, err
		}
		info, err := store.Get(in.ID)
		if err != nil {
			return nil, missing(in.ID, err)
		}
		if at := moment(&in.Body, info); !at.IsZero() && at.Before(rest.GrantOf(ctx).ShownSince()) {
			return nil, rest.PermissionDenied.Problem("permission denied: the time is before the token was made; use a token of scope admin")
		}
		entry, err := do(store, in.ID, &in.Body)
		return rest.Reply(entry, missing(in.ID, err))
	})
}

func (a recordings) addCaptions(r rest.Route, kind timeline.VTTKind) {
	r.Query, r.Large, r.Content = true, true, map[string]*huma.MediaType{"text/vtt": {Schema: &huma.Schema{Type: huma.TypeString}}}
	r.About = "Captions are WebVTT, for players and the track element of HTML. With from and to, they are the captions of a clip."
	add(a.Area, r, func(ctx context.Context, in *textInput) (*textOutput, error) {
		store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		err = store.WriteWebVTT(&text, in.ID, kind, timeline.Span{From: inVideo(in.From), To: inVideo(in.To)})
		return &textOutput{ContentType: "text/vtt; charset=utf-8", Cache: "private, no-cache", Body: text.Bytes()}, missing(in.ID, err)
	})
}
