package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/recording/timeline"
)

type (
	// spanQuery is a part of a video.
	spanQuery struct {
		From int64 `query:"from" minimum:"0" maximum:"31622400000" doc:"Milliseconds from the beginning of the video"`
		To   int64 `query:"to" minimum:"0" maximum:"31622400000" doc:"The same, of the end; that of the video when left out"`
	}

	// SpanQuery holds the query parameters of requests about a part of a video. It is
	// exported because package huma does not see embedded types with other names.
	SpanQuery = spanQuery

	clipInput struct {
		RecordingID
		rest.RawRequest
		SpanQuery
		Around uint64               `query:"around" doc:"In place of from and to: the seq of an entry of the timeline"`
		Before rest.Optional[int64] `query:"before" minimum:"0" maximum:"31622400000" doc:"Milliseconds before that entry; 2000 when left out"`
		After  rest.Optional[int64] `query:"after" minimum:"0" maximum:"31622400000" doc:"Milliseconds after it; 3000 when left out"`
	}

	textInput struct {
		RecordingID
		SpanQuery
	}

	textOutput struct {
		ContentType string `header:"Content-Type"`
		Cache       string `header:"Cache-Control"`
		Body        []byte
	}
)

func (q spanQuery) span() timeline.Span {
	return timeline.Span{From: inVideo(q.From), To: inVideo(q.To)}
}

// inVideo is a number of milliseconds.
func inVideo(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

const aboutClip = `From one moment to another, or around an entry of the timeline. It is not encoded anew when it begins at a key frame,
which takes no time; else it begins exactly where it was asked to. captions.vtt with the same from and to has its captions.`

func (s *Server) registerClip() {
	r := rest.Route{
		ID: "clipRecording", Method: http.MethodGet, Path: "/recordings/{id}/clip", Tag: recordingTag, Query: true,
		Summary: "Get a part of a recording as a video of its own", About: aboutClip,
		Content: map[string]*huma.MediaType{videoType: rest.Binary()},
		Errors:  []int{http.StatusBadRequest, http.StatusServiceUnavailable},
	}
	onRecording(s, r, func(ctx context.Context, store *recording.Store, in *clipInput) (*rest.FileOutput, error) {
		req, err := in.request()
		if err != nil {
			return nil, err
		}
		clip, err := store.Clip(ctx, in.ID, req)
		if err != nil {
			return nil, err
		}
		name := in.ID + "-" + strconv.FormatInt(clip.From.Milliseconds(), 10) + "-" + strconv.FormatInt(clip.To.Milliseconds(), 10) + ".mp4"
		out := &rest.FileOutput{ContentType: videoType, Disposition: rest.Attachment(name), Cache: "private, no-store"}
		// It is made anew for each request, so there are no parts of it to ask for.
		out, err = s.rest.SendFile(out, clipFile{openFile{clip.File}, clip}, clip.Bytes, time.Now(), &rest.Conditions{}, in.Request())
		if err == nil {
			out.AcceptRanges = "none"
		}
		return out, err
	})
}

// clipFile is the file of a clip, which is freed when it is closed.
type clipFile struct {
	openFile
	clip *recording.Clip
}

// Close implements io.Closer.
func (f clipFile) Close() error { return f.clip.Close() }

// request is the clip that is asked for.
func (in *clipInput) request() (recording.ClipRequest, error) {
	req := recording.ClipRequest{From: inVideo(in.From), To: inVideo(in.To), Around: in.Around}
	if in.Around == 0 {
		if in.Before.Set || in.After.Set {
			return req, rest.InvalidArgument("around", "around must be given with before and after: the seq of an entry of the timeline")
		}
		return req, nil
	}
	if in.From != 0 || in.To != 0 {
		return req, rest.InvalidArgument("around", "around excludes from and to")
	}
	req.Before, req.After = inVideo(in.Before.Value), inVideo(in.After.Value)
	return req, nil
}

func (s *Server) registerCaptions() {
	for kind, about := range map[timeline.VTTKind][2]string{
		timeline.VTTCaptions: {"getRecordingCaptions", "Get what was done in a recording, as captions"},
		timeline.VTTChapters: {"getRecordingChapters", "Get the chapters of a recording"},
	} {
		r := rest.Route{
			ID: about[0], Method: http.MethodGet, Path: "/recordings/{id}/" + string(kind) + ".vtt", Tag: recordingTag, Query: true,
			Summary: about[1], About: "As WebVTT, for the track element of HTML and for players. With from and to, those of a clip.",
			Content: map[string]*huma.MediaType{"text/vtt": {Schema: &huma.Schema{Type: huma.TypeString}}},
			Errors:  []int{http.StatusBadRequest},
			Large:   true,
		}
		onRecording(s, r, func(_ context.Context, store *recording.Store, in *textInput) (*textOutput, error) {
			var text bytes.Buffer
			if err := store.WriteWebVTT(&text, in.ID, kind, in.span()); err != nil {
				return nil, err
			}
			return &textOutput{ContentType: textType, Cache: "private, no-cache", Body: text.Bytes()}, nil
		})
	}
}
