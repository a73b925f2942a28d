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
		From    int64  `query:"from" minimum:"0" maximum:"31622400000" doc:"Milliseconds from the beginning of the video"`
		To      int64  `query:"to" minimum:"0" maximum:"31622400000" doc:"The same, of the end; the end of the video when left out"`
		After   uint64 `query:"after" doc:"Only entries with a higher seq: the next of the page before"`
		Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"At most so many; fewer if they have more than 4 MiB"`
	}

	timelinePage struct {
		Entries []timeline.Entry `json:"entries" nullable:"false" doc:"By seq, in which order they became known"`
		Next    uint64           `json:"next,omitempty" doc:"There may be more: ask for those after it"`
	}

	markerBody struct {
		Title string `json:"title" minLength:"1" maxLength:"200"`
		Text  string `json:"text,omitempty" maxLength:"4096"`
		Color string `json:"color,omitempty" doc:"For players" example:"#ff8800"`
		At    *int64 `json:"at,omitempty" doc:"Milliseconds from the beginning of the video; now when left out, while it goes on"`
	}

	eventBody struct {
		Type  string          `json:"type" maxLength:"64" doc:"A name of your own: lower-case letters, digits and any of _ . -" example:"agent_message"`
		Title string          `json:"title,omitempty" maxLength:"200" doc:"What captions say; they leave it out without one"`
		Data  json.RawMessage `json:"data,omitempty" doc:"Any JSON, at most 64 KiB. It is kept as it is: nothing secret should be in it"`
		Time  *time.Time      `json:"time,omitempty" doc:"When it happened; now when left out"`
	}

	textInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		From    int64  `query:"from" minimum:"0" maximum:"31622400000" doc:"Milliseconds from the beginning of the video"`
		To      int64  `query:"to" minimum:"0" maximum:"31622400000" doc:"The same, of the end; the end of the video when left out"`
	}

	textOutput struct {
		ContentType string `header:"Content-Type"`
		Cache       string `header:"Cache-Control"`
		Body        []byte
	}
)

const aboutTimeline = `Entries tell of actions and their actors, windows, changes of control, markers, and events that clients added. Their times
count from the beginning of the video. For text that a person typed, or that was typed as a secret, an entry has only the number of characters.`

func (a recordings) registerTimeline(r rest.Route) {
	r.Errors = []int{http.StatusNotFound, http.StatusBadRequest}
	get := r.Get("getRecordingTimeline", "/recordings/{id}/timeline", "Read what happened in a recording").WithAbout(aboutTimeline)
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
	a.addCaptions(r.Get("getRecordingCaptions", "/recordings/{id}/captions.vtt", "Get what was done in a recording, as captions"), timeline.VTTCaptions)
	a.addCaptions(r.Get("getRecordingChapters", "/recordings/{id}/chapters.vtt", "Get the chapters of a recording"), timeline.VTTChapters)
	r = r.WithErrors(http.StatusConflict)
	r.Status = http.StatusCreated
	note(a, r.Post("markRecording", "/recordings/{id}/markers", "Set a marker").
		WithAbout("It begins a chapter. Recordings that have ended can be marked as well."),
		func(store *recording.Store, id string, b *markerBody) (timeline.Entry, error) {
			m := timeline.Marker{Title: b.Title, Text: b.Text, Color: b.Color}
			if b.At != nil {
				at := timeline.Milliseconds(*b.At)
				m.At = &at
			}
			return store.Mark(id, m)
		})
	note(a, r.Post("addRecordingEvent", "/recordings/{id}/events", "Add something else that happened").
		WithAbout("Such as a message or a tool call of an agent, while the recording goes on."),
		func(store *recording.Store, id string, b *eventBody) (timeline.Entry, error) {
			return store.AddEvent(id, timeline.Event{Type: desktop.EventType(b.Type), Title: b.Title, Data: b.Data, Time: rest.Value(b.Time)})
		})
}

// note adds a route whose body do makes an entry of the timeline.
func note[B any](a recordings, r rest.Route, do func(store *recording.Store, id string, b *B) (timeline.Entry, error)) {
	add(a.Area, r, func(ctx context.Context, in *itemInput[B]) (*rest.Output[timeline.Entry], error) {
		store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingListed)
		if err != nil {
			return nil, err
		}
		entry, err := do(store, in.ID, &in.Body)
		return rest.Reply(entry, missing(in.ID, err))
	})
}

func (a recordings) addCaptions(r rest.Route, kind timeline.VTTKind) {
	r.Query, r.Large, r.Content = true, true, map[string]*huma.MediaType{"text/vtt": {Schema: &huma.Schema{Type: huma.TypeString}}}
	r.About = "As WebVTT, for the track element of HTML and for players. With from and to, the entries of a clip."
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
