package desktops

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// recordings has the routes of recordings.
type recordings struct {
	*Area
	liveDownloads, clips *rest.SharedPlaces
}

// recordBody says how to record. All members may be left out.
type recordBody struct {
	FPS         *int64      `json:"fps,omitempty" doc:"Maximum frames per second, 1 to 60; defaults to the desktop's recordingFps, or 30"`
	Quality     string      `json:"quality,omitempty" enum:"low,medium,high" doc:"Defaults to medium"`
	Scale       *float64    `json:"scale,omitempty" doc:"Factor from screen size to video size, 0.1 to 1; defaults to 1"`
	Region      *regionBody `json:"region,omitempty" doc:"Part of the screen to record; defaults to the whole screen"`
	Cursor      *bool       `json:"cursor,omitempty" doc:"Draw the pointer; defaults to true"`
	Sound       bool        `json:"sound,omitempty" doc:"Also record sound"`
	MaxDuration *int64      `json:"maxDurationMs,omitempty" doc:"Maximum duration, after which the recording stops"`
	MaxBytes    *int64      `json:"maxBytes,omitempty" doc:"Maximum size, at which the recording stops"`
	Segment     *int64      `json:"segmentMs,omitempty" doc:"Duration of a segment, after which another recording continues this one"`
	Thumbnails  *int64      `json:"thumbnailMs,omitempty" doc:"Interval of thumbnails; defaults to 10000"`
	Title       string      `json:"title,omitempty" maxLength:"200" doc:"Title of the recording"`
}

type regionBody struct {
	X      int64 `json:"x"`
	Y      int64 `json:"y"`
	Width  int64 `json:"width"`
	Height int64 `json:"height"`
}

// longestMS bounds times in milliseconds. A longer time is meant to be without an end, or
// is a mistake.
const longestMS = int64(366 * 24 * time.Hour / time.Millisecond)

// check refuses what cannot be recorded on any desktop.
func (b *recordBody) check() error {
	span := func(p *int64, least int64) bool { return p == nil || *p >= least && *p <= longestMS }
	err := check([]argument{
		{b.FPS != nil && (*b.FPS < 1 || *b.FPS > 60), "fps", "fps must be between 1 and 60"},
		{b.Scale != nil && (math.IsNaN(*b.Scale) || *b.Scale < 0.1 || *b.Scale > 1), "scale", "scale must be between 0.1 and 1.0"},
		{!span(b.MaxDuration, 1), "maxDurationMs", "maxDurationMs must be at least 1, and at most a year"},
		{b.MaxBytes != nil && *b.MaxBytes < 1<<20, "maxBytes", "maxBytes must be at least 1048576"},
		{!span(b.Segment, 1000), "segmentMs", "segmentMs must be at least 1000, and at most a year"},
		{!span(b.Thumbnails, 1000), "thumbnailMs", "thumbnailMs must be at least 1000, and at most a year"},
	})
	if err == nil && b.Region != nil {
		_, err = b.Region.rect()
	}
	return err
}

func (b *regionBody) rect() (desktop.Rect, error) { return regionOf(b.X, b.Y, b.Width, b.Height) }

// recordingInfo describes a recording. The reference has the members before
// Desktop.
type recordingInfo struct {
	ID          string           `json:"id" doc:"Id of the recording, never reused" example:"rec_01k9m4w2d0000000000000000"`
	Status      recording.Status `json:"status" enum:"recording,recovering,completed,recovered,failed,deleted" doc:"recovering: an interrupted recording is being checked; recovered: it was interrupted, and has everything recorded until then. Only events have the status deleted"`
	ProcessID   string           `json:"processId,omitempty" doc:"Process id of the running encoder"`
	FileName    string           `json:"fileName"`
	Bytes       int64            `json:"bytes" doc:"Size in bytes; of a running recording, its size until now"`
	StartedAt   string           `json:"startedAt" format:"date-time"`
	EndedAt     string           `json:"endedAt,omitempty" format:"date-time"`
	Desktop     string           `json:"desktop" doc:"Id of the desktop"`
	Title       string           `json:"title,omitempty"`
	Duration    int64            `json:"durationMs" doc:"Duration of the video in milliseconds"`
	Region      *regionBody      `json:"region,omitempty" doc:"Part of the screen that the video shows; absent: the whole screen"`
	Width       int              `json:"width,omitempty"`
	Height      int              `json:"height,omitempty"`
	FPS         int              `json:"fps,omitempty" doc:"Maximum frames per second; only changed frames are stored"`
	Frames      int64            `json:"frames,omitempty" doc:"Number of stored frames"`
	Dropped     int64            `json:"dropped,omitempty" doc:"Number of frames dropped because the encoder was too slow"`
	Lost        uint64           `json:"timelineDropped,omitempty" doc:"Number of timeline entries dropped at its size limit. A gap entry stands in their place"`
	Sound       bool             `json:"sound,omitempty" doc:"Whether it has sound"`
	NoSound     string           `json:"soundProblem,omitempty" doc:"Why requested sound is missing"`
	Reason      recording.Reason `json:"reason,omitempty" doc:"Why the recording ended: stopped, max_duration, max_bytes, disk_full, desktop_closed, ..."`
	Error       string           `json:"error,omitempty" doc:"Why it failed"`
	Continues   string           `json:"continues,omitempty" doc:"Id of the recording that this one continues without a gap"`
	ContinuedBy string           `json:"continuedBy,omitempty" doc:"Id of the recording that continues this one"`
	Seekable    bool             `json:"seekable,omitempty" doc:"Whether the index precedes the media, so that players can seek during the download; true shortly after the recording ends"`
}

func infoOfRecording(i recording.Info) recordingInfo {
	out := recordingInfo{
		ID: i.ID, Status: i.Status, ProcessID: i.ProcessID, FileName: i.FileName, Bytes: i.Bytes,
		StartedAt: i.Started.UTC().Format(timeFormat), Desktop: i.Desktop, Title: i.Title, Duration: i.Duration.Milliseconds(),
		Width: i.Width, Height: i.Height, FPS: i.FrameRate, Frames: i.Frames, Dropped: i.Dropped, Lost: i.TimelineDropped, Sound: i.Sound, NoSound: i.SoundProblem,
		Reason: i.Reason, Error: i.Error, Continues: i.Continues, ContinuedBy: i.ContinuedBy, Seekable: i.Seekable,
	}
	if r := i.Region; r != nil {
		out.Region = &regionBody{int64(r.X), int64(r.Y), int64(r.Width), int64(r.Height)}
	}
	if !i.Ended.IsZero() {
		out.EndedAt = i.Ended.UTC().Format(timeFormat)
	}
	return out
}

type (
	// recordingInput names a recording.
	recordingInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
	}

	recordingList struct {
		Recordings []recordingInfo `json:"recordings" nullable:"false" doc:"Recordings, oldest first"`
	}

	recordingCreated struct {
		Location string `header:"Location"`
		Body     recordingInfo
	}
)

func recordingOf(info recording.Info, err error) (*rest.Output[recordingInfo], error) {
	return rest.Reply(infoOfRecording(info), err)
}

// store returns the recordings of a desktop, whether it runs or not.
func (a recordings) store(ctx context.Context, desktopID string) (*recording.Store, error) {
	inst, err := a.fleet.FindRecorded(desktopID)
	if err != nil {
		return nil, err
	}
	return inst.Recordings(ctx)
}

// storeFor returns the recordings of a desktop for a use of the one with an id. It returns
// a problem if the token shows less of that recording than is needed.
func (a recordings) storeFor(ctx context.Context, desktopID, id string, needed recordingView) (*recording.Store, error) {
	store, err := a.store(ctx, desktopID)
	if err != nil {
		return nil, err
	}
	if info, err := store.Get(id); err == nil && viewOf(rest.GrantOf(ctx), info) < needed {
		return nil, rest.PermissionDenied.Problem("permission denied: this recording began before the token was made; use a token of scope admin")
	}
	return store, nil
}

// missing returns the problem if err says that a recording or one of its files does not
// exist, and err otherwise.
func missing(id string, err error) error {
	switch {
	case errors.Is(err, recording.ErrNotFound):
		return rest.Missing("desktop_recording", id)
	case rest.IsAny(err, fs.ErrNotExist, recording.ErrNoPicture):
		return rest.Missing("desktop_recording_file", id)
	}
	return err
}

func (a recordings) register() {
	r := rest.Route{Tag: "Recordings", Enter: a.enterUse(), Errors: []int{http.StatusBadRequest, http.StatusConflict, http.StatusInsufficientStorage}}
	add(a.Area, r.Post("startDesktopRecording", "/recording/start", "Start recording the desktop").
		WithAbout("A desktop has one such recording at a time; POST to recordings starts additional ones."),
		func(ctx context.Context, in *input[recordBody]) (*rest.Output[recordingInfo], error) {
			return recordingOf(a.record(ctx, in, (*fleet.Instance).RecordExclusive))
		})
	create := r.Post("createRecording", "/recordings", "Start an additional recording").
		WithAbout("A desktop runs at most 8 recordings concurrently, at most 4 of them started by tokens of a scope other than admin.")
	create.Status = http.StatusCreated
	add(a.Area, create, func(ctx context.Context, in *input[recordBody]) (*recordingCreated, error) {
		info, err := a.record(ctx, in, (*fleet.Instance).Record)
		return &recordingCreated{Location: pathOf(in.Desktop) + "/recordings/" + info.ID, Body: infoOfRecording(info)}, err
	})
	r.Errors, r.Enter = []int{http.StatusConflict}, nil
	add(a.Area, r.Post("stopDesktopRecording", "/recording/stop", "Stop recording the desktop").WithAbout("The recording is playable when the call returns."),
		func(ctx context.Context, in *target) (*rest.Output[recordingInfo], error) {
			inst, err := a.fleet.Find(in.Desktop)
			if err != nil {
				return nil, err
			}
			rec := inst.ExclusiveRecording()
			if rec == nil {
				return nil, rest.ConflictOf("no desktop recording is active")
			}
			return recordingOf(rec.Stop(ctx))
		})
	r = rest.Route{Tag: r.Tag, Enter: a.enter(a.fleet.FindRecorded)}
	a.registerStored(r)
	a.registerMedia(r)
	a.registerTimeline(r)
}

// registerStored adds the routes of recordings that exist.
func (a recordings) registerStored(r rest.Route) {
	add(a.Area, r.Get("listDesktopRecordings", "/recordings", "List the desktop's recordings").
		WithAbout("Includes recordings of earlier servers. The desktop need not run or exist: GET /v1/desktops lists deleted desktops that have recordings. A token of the scope view, control or agent gets the recordings that began after the token was created, and descriptions of older ones while they run."),
		func(ctx context.Context, in *target) (*rest.Output[recordingList], error) {
			store, err := a.store(ctx, in.Desktop)
			if err != nil {
				return nil, err
			}
			out := recordingList{[]recordingInfo{}}
			for _, info := range store.List() {
				if viewOf(rest.GrantOf(ctx), info) != recordingHidden {
					out.Recordings = append(out.Recordings, infoOfRecording(info))
				}
			}
			return rest.Reply(out, nil)
		})
	r.Errors = []int{http.StatusNotFound}
	add(a.Area, r.Get("getDesktopRecording", "/recordings/{id}", "Get a recording"),
		func(ctx context.Context, in *recordingInput) (*rest.Output[recordingInfo], error) {
			store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingListed)
			if err != nil {
				return nil, err
			}
			info, err := store.Get(in.ID)
			return recordingOf(info, missing(in.ID, err))
		})
	r = r.WithErrors(http.StatusConflict)
	add(a.Area, r.Post("stopRecording", "/recordings/{id}/stop", "Stop a recording").
		WithAbout("The recording is playable when the call returns. A segmented recording ends with the current segment."),
		func(ctx context.Context, in *recordingInput) (*rest.Output[recordingInfo], error) {
			store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingListed)
			if err != nil {
				return nil, err
			}
			rec, err := store.Recording(in.ID)
			if err != nil {
				return nil, missing(in.ID, err)
			}
			info, err := rec.Stop(ctx)
			return recordingOf(info, missing(in.ID, err))
		})
	remove := r.Delete("deleteDesktopRecording", "/recordings/{id}", "Delete a recording").WithAbout("Running downloads complete.")
	remove.Admin, remove.Scope = true, grants.ScopeSupervise
	add(a.Area, remove, func(ctx context.Context, in *recordingInput) (*struct{}, error) {
		store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingListed)
		if err != nil {
			return nil, err
		}
		return nil, missing(in.ID, store.Delete(in.ID))
	})
}

// record starts a recording of a desktop.
func (a recordings) record(ctx context.Context, in *input[recordBody],
	start func(*fleet.Instance, context.Context, recording.Config) (*recording.Recording, error),
) (recording.Info, error) {
	inst, err := a.fleet.Find(in.Desktop)
	if err = cmp.Or(err, in.Body.check()); err != nil {
		return recording.Info{}, err
	}
	cfg := in.Body.config()
	cfg.Guest = rest.GrantOf(ctx).ViewersOf() != ""
	rec, err := start(inst, ctx, cfg)
	if e, ok := errors.AsType[*fleet.StateError](err); ok {
		err = rest.ConflictOf(stateProblem(e).Detail) // as the reference has it
	}
	if err != nil {
		return recording.Info{}, err
	}
	return rec.Info(), nil
}

// config returns the configuration of the recording that a request asks for.
func (b *recordBody) config() recording.Config {
	ms := func(p *int64) time.Duration { return inVideo(rest.Value(p)) }
	cfg := recording.Config{
		Quality: recording.Quality(b.Quality), Sound: b.Sound, Title: b.Title, FrameRate: int(rest.Value(b.FPS)), Scale: rest.Value(b.Scale),
		MaxDuration: ms(b.MaxDuration), SegmentLength: ms(b.Segment), ThumbnailInterval: ms(b.Thumbnails), MaxBytes: rest.Value(b.MaxBytes),
	}
	if b.Region != nil {
		region, _ := b.Region.rect() // check has refused others
		cfg.Region = &region
	}
	if b.Cursor != nil && !*b.Cursor {
		cfg.Cursor = recording.CursorNone
	}
	return cfg
}
