package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// recordBody says how to record. All may be left out.
type recordBody struct {
	FPS         *int64      `json:"fps,omitempty" doc:"Pictures per second at most, 1 to 60; the desktop's recordingFps, or 30, when left out"`
	Quality     string      `json:"quality,omitempty" enum:"low,medium,high" doc:"medium when left out"`
	Scale       *float64    `json:"scale,omitempty" doc:"Size of the video by that of the screen, 0.1 to 1; 1 when left out"`
	Region      *regionBody `json:"region,omitempty" doc:"A part of the screen; all of it when left out"`
	Cursor      *bool       `json:"cursor,omitempty" doc:"Draw the pointer; true when left out"`
	Sound       bool        `json:"sound,omitempty" doc:"Record what the desktop plays, too"`
	MaxDuration *int64      `json:"maxDurationMs,omitempty" doc:"Stop by itself after that time"`
	MaxBytes    *int64      `json:"maxBytes,omitempty" doc:"Stop by itself at that size"`
	Segment     *int64      `json:"segmentMs,omitempty" doc:"Go on in another recording after that time, again and again"`
	Thumbnails  *int64      `json:"thumbnailMs,omitempty" doc:"Between thumbnails; 10000 when left out"`
	Title       string      `json:"title,omitempty" maxLength:"200" doc:"What people call it"`
}

type regionBody struct {
	X      int64 `json:"x"`
	Y      int64 `json:"y"`
	Width  int64 `json:"width"`
	Height int64 `json:"height"`
}

// longestMS bounds times in milliseconds: what is longer is meant to be without
// an end, or a mistake.
const longestMS = int64(366 * 24 * time.Hour / time.Millisecond)

// check refuses what cannot be recorded whatever the desktop is like.
func (b *recordBody) check() error {
	span := func(p *int64) bool { return p == nil || *p >= 1 && *p <= longestMS }
	switch {
	case b.FPS != nil && (*b.FPS < 1 || *b.FPS > 60):
		return rest.InvalidArgument("fps", "fps must be between 1 and 60")
	case b.Scale != nil && (math.IsNaN(*b.Scale) || *b.Scale < 0.1 || *b.Scale > 1):
		return rest.InvalidArgument("scale", "scale must be between 0.1 and 1.0")
	case !span(b.MaxDuration):
		return rest.InvalidArgument("maxDurationMs", "maxDurationMs must be at least 1, and at most a year")
	case b.MaxBytes != nil && *b.MaxBytes < 1<<20:
		return rest.InvalidArgument("maxBytes", "maxBytes must be at least 1048576")
	case b.Segment != nil && (*b.Segment < 1000 || !span(b.Segment)):
		return rest.InvalidArgument("segmentMs", "segmentMs must be at least 1000, and at most a year")
	case b.Thumbnails != nil && (*b.Thumbnails < 1000 || !span(b.Thumbnails)):
		return rest.InvalidArgument("thumbnailMs", "thumbnailMs must be at least 1000, and at most a year")
	}
	if b.Region == nil {
		return nil
	}
	return checkRegion(b.Region.rect())
}

func (b *regionBody) rect() desktop.Rect {
	return desktop.Rect{X: int(b.X), Y: int(b.Y), Width: int(b.Width), Height: int(b.Height)}
}

// recordingInfo describes a recording. What is before its desktop is as the
// reference has it.
type recordingInfo struct {
	ID          string           `json:"id" doc:"Never used for another one" example:"rec_01k9m4w2d0000000000000000"`
	Status      recording.Status `json:"status" enum:"recording,recovering,completed,recovered,failed,deleted" doc:"recovered: it was broken off, and has all that there was until then; recovering: that is being looked at. deleted is told by events alone"`
	ProcessID   string           `json:"processId,omitempty" doc:"Of the encoder, while it runs"`
	FileName    string           `json:"fileName"`
	Bytes       int64            `json:"bytes" doc:"So far, while it goes on"`
	StartedAt   string           `json:"startedAt" format:"date-time"`
	EndedAt     string           `json:"endedAt,omitempty" format:"date-time"`
	Desktop     string           `json:"desktop" doc:"Id of the desktop"`
	Title       string           `json:"title,omitempty"`
	Duration    int64            `json:"durationMs" doc:"Of the video, in milliseconds"`
	Width       int              `json:"width,omitempty"`
	Height      int              `json:"height,omitempty"`
	FPS         int              `json:"fps,omitempty" doc:"Pictures per second at most: only what changes is stored"`
	Frames      int64            `json:"frames,omitempty" doc:"Pictures that were stored"`
	Dropped     int64            `json:"dropped,omitempty" doc:"Pictures that were not, because the encoder was too slow"`
	Lost        uint64           `json:"timelineDropped,omitempty" doc:"Entries that the timeline left out for lack of room. Where they would be it has a gap"`
	Sound       bool             `json:"sound,omitempty" doc:"It has sound"`
	NoSound     string           `json:"soundProblem,omitempty" doc:"Why it has none although that was asked for"`
	Reason      recording.Reason `json:"reason,omitempty" doc:"Why it ended: stopped, max_duration, max_bytes, disk_full, desktop_closed, ..."`
	Error       string           `json:"error,omitempty" doc:"What went wrong"`
	Continues   string           `json:"continues,omitempty" doc:"Id of the recording that this one goes on from, without a gap"`
	ContinuedBy string           `json:"continuedBy,omitempty" doc:"Id of the recording that goes on from this one"`
	Seekable    bool             `json:"seekable,omitempty" doc:"Its index is in front, so that players can seek before they have all of it; so it is soon after the end"`
}

func infoOfRecording(i recording.Info) recordingInfo {
	out := recordingInfo{
		ID: i.ID, Status: i.Status, ProcessID: i.ProcessID, FileName: i.FileName, Bytes: i.Bytes,
		StartedAt: i.Started.UTC().Format(timeFormat), Desktop: i.Desktop, Title: i.Title, Duration: i.Duration.Milliseconds(),
		Width: i.Width, Height: i.Height, FPS: i.FrameRate, Frames: i.Frames, Dropped: i.Dropped, Lost: i.TimelineDropped, Sound: i.Sound, NoSound: i.SoundProblem,
		Reason: i.Reason, Error: i.Error, Continues: i.Continues, ContinuedBy: i.ContinuedBy, Seekable: i.Seekable,
	}
	if !i.Ended.IsZero() {
		out.EndedAt = i.Ended.UTC().Format(timeFormat)
	}
	return out
}

type (
	recordingOutput struct{ Body recordingInfo }

	recordingCreated struct {
		Location string `header:"Location"`
		Body     recordingInfo
	}

	recordingList struct {
		Recordings []recordingInfo `json:"recordings" nullable:"false" doc:"The oldest first"`
	}

	recordingListOutput struct{ Body recordingList }

	// recordingID names a recording, in a path.
	recordingID struct {
		ID string `path:"id"`
	}

	// RecordingID holds the path parameter of requests about one recording. It is
	// exported because package huma does not see embedded types with other names.
	RecordingID = recordingID
)

func (in *recordingID) recordingID() string { return in.ID }

// onRecording registers an operation on one recording, whether its desktop runs
// or not.
func onRecording[I, O any, P interface {
	*I
	recordingID() string
}](s *Server, r rest.Route, handle func(context.Context, *recording.Store, P) (*O, error),
) {
	r.Errors = append([]int{http.StatusNotFound}, r.Errors...)
	onInstance(s, r, func(ctx context.Context, inst *fleet.Instance, in *I) (*O, error) {
		store, err := inst.Recordings(ctx)
		if err != nil {
			return nil, err
		}
		id := P(in).recordingID()
		if info, err := store.Get(id); err == nil {
			if err := recordingClosed(rest.GrantOf(ctx), r, info); err != nil {
				return nil, err
			}
		}
		out, err := handle(ctx, store, in)
		switch {
		case errors.Is(err, recording.ErrNotFound):
			return nil, rest.Missing("desktop_recording", id)
		case errors.Is(err, fs.ErrNotExist):
			return nil, rest.Missing("desktop_recording_file", id)
		}
		return out, err
	})
}

const recordingTag = "Recordings"

func (s *Server) registerRecording() {
	r := rest.Route{Method: http.MethodPost, Tag: recordingTag, Errors: []int{http.StatusBadRequest, http.StatusConflict, http.StatusInsufficientStorage}}
	start := r
	start.ID, start.Path, start.Summary = "startDesktopRecording", "/recording/start", "Begin the recording of the desktop"
	start.About = "There is one such recording at a time; POST to recordings begins others beside it."
	onInstance(s, start, func(ctx context.Context, inst *fleet.Instance, in *rest.Input[recordBody]) (*recordingOutput, error) {
		info, err := record(ctx, inst, &in.Body, true)
		return &recordingOutput{info}, err
	})
	stop := r
	stop.ID, stop.Path, stop.Summary = "stopDesktopRecording", "/recording/stop", "End the recording of the desktop"
	stop.About, stop.Errors = "It can be played at once.", []int{http.StatusConflict}
	onInstance(s, stop, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*recordingOutput, error) {
		rec := inst.ExclusiveRecording()
		if rec == nil {
			return nil, rest.ConflictOf("no desktop recording is active")
		}
		info, err := rec.Stop(ctx)
		return &recordingOutput{infoOfRecording(info)}, err
	})
	create := r
	create.ID, create.Path, create.Summary = "createRecording", "/recordings", "Begin a further recording"
	create.About = "At most 8 run at the same time, each with options of its own, and at most 4 of them started by tokens of a scope other than admin."
	create.Status = http.StatusCreated
	onInstance(s, create, func(ctx context.Context, inst *fleet.Instance, in *rest.Input[recordBody]) (*recordingCreated, error) {
		info, err := record(ctx, inst, &in.Body, false)
		at := mainPath
		if inst.ID() != mainDesktop {
			at = "/v1/desktops/" + inst.ID()
		}
		return &recordingCreated{Location: at + "/recordings/" + info.ID, Body: info}, err
	})
	s.registerRecordings()
	s.registerRecordingMedia()
	s.registerTimeline()
}

// registerRecordings adds what is done with recordings that there are.
func (s *Server) registerRecordings() {
	r := rest.Route{Method: http.MethodGet, Tag: recordingTag}
	list := r
	list.ID, list.Path, list.Summary = "listDesktopRecordings", "/recordings", "List the desktop's recordings"
	list.About = "A token of a scope other than admin sees those that began after it was made, and that others go on. Those of earlier servers are among them. The desktop need not run, nor be there any more: GET /v1/desktops tells which were."
	onInstance(s, list, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*recordingListOutput, error) {
		store, err := inst.Recordings(ctx)
		if err != nil {
			return nil, err
		}
		out := &recordingListOutput{recordingList{[]recordingInfo{}}}
		for _, info := range store.List() {
			if viewOf(rest.GrantOf(ctx), info) == recordingHidden {
				continue
			}
			out.Body.Recordings = append(out.Body.Recordings, infoOfRecording(info))
		}
		return out, nil
	})
	get := r
	get.ID, get.Path, get.Summary = "getDesktopRecording", "/recordings/{id}", "Tell about a recording"
	onRecording(s, get, func(_ context.Context, store *recording.Store, in *recordingID) (*recordingOutput, error) {
		info, err := store.Get(in.ID)
		return &recordingOutput{infoOfRecording(info)}, err
	})
	stop := r
	stop.ID, stop.Method, stop.Path, stop.Summary = "stopRecording", http.MethodPost, "/recordings/{id}/stop", "End a recording"
	stop.About, stop.Errors = "It can be played at once. One that goes on in segments ends with the segment that is being recorded.", []int{http.StatusConflict}
	onRecording(s, stop, func(ctx context.Context, store *recording.Store, in *recordingID) (*recordingOutput, error) {
		rec, err := store.Recording(in.ID)
		if err != nil {
			return nil, err
		}
		info, err := rec.Stop(ctx)
		return &recordingOutput{infoOfRecording(info)}, err
	})
	remove := r
	remove.ID, remove.Method, remove.Path, remove.Summary = "deleteDesktopRecording", http.MethodDelete, "/recordings/{id}", "Delete a recording"
	remove.About, remove.Errors = "Whoever is downloading it gets the rest.", []int{http.StatusConflict}
	remove.Status, remove.Admin = http.StatusNoContent, true
	onRecording(s, remove, func(ctx context.Context, store *recording.Store, in *recordingID) (*struct{}, error) {
		return nil, store.Delete(in.ID)
	})
}

// record starts a recording of a desktop.
func record(ctx context.Context, inst *fleet.Instance, b *recordBody, exclusive bool) (recordingInfo, error) {
	if err := b.check(); err != nil {
		return recordingInfo{}, err
	}
	start := inst.Record
	if exclusive {
		start = inst.RecordExclusive
	}
	cfg := b.config()
	cfg.Guest = rest.GrantOf(ctx).ViewersOf() != ""
	rec, err := start(ctx, cfg)
	if e, ok := errors.AsType[*fleet.StateError](err); ok {
		return recordingInfo{}, rest.ConflictOf(stateProblem(e).Detail) // as the reference has it
	}
	if err != nil {
		return recordingInfo{}, err
	}
	return infoOfRecording(rec.Info()), nil
}

// config returns the configuration of the recording that a request asks for.
func (b *recordBody) config() recording.Config {
	ms := func(p *int64) time.Duration {
		if p == nil {
			return 0
		}
		return inVideo(*p)
	}
	cfg := recording.Config{
		Quality: recording.Quality(b.Quality), Sound: b.Sound, Title: b.Title,
		MaxDuration: ms(b.MaxDuration), SegmentLength: ms(b.Segment), ThumbnailInterval: ms(b.Thumbnails),
	}
	if b.FPS != nil {
		cfg.FrameRate = int(*b.FPS)
	}
	if b.Scale != nil {
		cfg.Scale = *b.Scale
	}
	if b.Region != nil {
		region := b.Region.rect()
		cfg.Region = &region
	}
	if b.Cursor != nil && !*b.Cursor {
		cfg.Cursor = recording.CursorNone
	}
	if b.MaxBytes != nil {
		cfg.MaxBytes = *b.MaxBytes
	}
	return cfg
}

// recordingTagOf names a state of a file that grows and may be replaced by one
// with the same content.
func recordingTagOf(info fs.FileInfo, inode uint64) string {
	return fmt.Sprintf(`"%x-%x-%x"`, inode, info.Size(), info.ModTime().UnixNano())
}
