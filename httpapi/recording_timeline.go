package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/recording/timeline"
)

type (
	timelineInput struct {
		RecordingID
		SpanQuery
		After uint64 `query:"after" doc:"Only entries with a higher seq: the next of the page before"`
		Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"At most so many; fewer if they have more than 4 MiB"`
	}

	timelinePage struct {
		Entries []timeline.Entry `json:"entries" nullable:"false" doc:"By seq, in which order they became known"`
		Next    uint64           `json:"next,omitempty" doc:"There may be more: ask for those after it"`
	}

	timelineOutput struct{ Body timelinePage }

	markerBody struct {
		Title string `json:"title" minLength:"1" maxLength:"200"`
		Text  string `json:"text,omitempty" maxLength:"4096"`
		Color string `json:"color,omitempty" doc:"For players" example:"#ff8800"`
		At    *int64 `json:"at,omitempty" doc:"Milliseconds from the beginning of the video; now when left out, while it goes on"`
	}

	markerInput struct {
		RecordingID
		Body markerBody
	}

	eventBody struct {
		Type  string          `json:"type" maxLength:"64" doc:"A name of your own: lower-case letters, digits and any of _ . -" example:"agent_message"`
		Title string          `json:"title,omitempty" maxLength:"200" doc:"What captions say; they leave it out without one"`
		Data  json.RawMessage `json:"data,omitempty" doc:"Any JSON, at most 64 KiB. It is kept as it is: nothing secret should be in it"`
		Time  *time.Time      `json:"time,omitempty" doc:"When it happened; now when left out"`
	}

	eventInput struct {
		RecordingID
		Body eventBody
	}

	timelineEntryOutput struct{ Body timeline.Entry }
)

const aboutTimeline = `Entries tell of actions and their actors, windows, changes of control, markers, and events that clients added. Their times
count from the beginning of the video. For text that a person typed, or that was typed as a secret, an entry has only the number of characters.`

func (s *Server) registerTimeline() {
	get := rest.Route{
		ID: "getRecordingTimeline", Method: http.MethodGet, Path: "/recordings/{id}/timeline", Tag: recordingTag,
		Summary: "Read what happened in a recording", About: aboutTimeline, Errors: []int{http.StatusBadRequest},
		Large: true,
	}
	onRecording(s, get, func(_ context.Context, store *recording.Store, in *timelineInput) (*timelineOutput, error) {
		entries, next, err := store.Timeline(in.ID, timeline.Query{After: in.After, Limit: in.Limit, Span: in.span()})
		if err != nil {
			return nil, err
		}
		return &timelineOutput{timelinePage{Entries: entries, Next: next}}, nil
	})
	r := rest.Route{Method: http.MethodPost, Tag: recordingTag, Status: http.StatusCreated, Errors: []int{http.StatusBadRequest, http.StatusConflict}}
	mark := r
	mark.ID, mark.Path, mark.Summary = "markRecording", "/recordings/{id}/markers", "Set a marker"
	mark.About = "It begins a chapter. Recordings that have ended can be marked as well."
	onRecording(s, mark, func(_ context.Context, store *recording.Store, in *markerInput) (*timelineEntryOutput, error) {
		m := timeline.Marker{Title: in.Body.Title, Text: in.Body.Text, Color: in.Body.Color}
		if in.Body.At != nil {
			at := timeline.Milliseconds(*in.Body.At)
			m.At = &at
		}
		entry, err := store.Mark(in.ID, m)
		return &timelineEntryOutput{entry}, err
	})
	event := r
	event.ID, event.Path, event.Summary = "addRecordingEvent", "/recordings/{id}/events", "Add something else that happened"
	event.About = "Such as a message or a tool call of an agent, while the recording goes on."
	onRecording(s, event, func(_ context.Context, store *recording.Store, in *eventInput) (*timelineEntryOutput, error) {
		e := timeline.Event{Type: desktop.EventType(in.Body.Type), Title: in.Body.Title, Data: in.Body.Data}
		if in.Body.Time != nil {
			e.Time = *in.Body.Time
		}
		entry, err := store.AddEvent(in.ID, e)
		return &timelineEntryOutput{entry}, err
	})
}
