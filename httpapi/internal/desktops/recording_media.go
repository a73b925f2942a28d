package desktops

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

const (
	videoType   = "video/mp4"
	pictureType = "image/jpeg"
)

type (
	videoInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		Live    string `query:"live" enum:"true,false,1,0" doc:"Stream a running recording until it ends; the response has no length and no ranges"`
		rest.Conditions
	}

	posterInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		rest.Conditions
	}

	thumbnailInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		Moment  string `path:"moment" pattern:"^[0-9]{1,12}(\\.jpg)?$" doc:"Milliseconds from the start of the video, with or without .jpg" example:"1500.jpg"`
		rest.Conditions
	}

	thumbnailInfo struct {
		At   int64  `json:"at" doc:"Milliseconds from the start of the video"`
		Path string `json:"path" doc:"Path below the path of the recording"`
	}

	thumbnailsOutput struct {
		Body struct {
			Thumbnails []thumbnailInfo `json:"thumbnails" nullable:"false"`
		}
	}

	clipInput struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		From    int64  `query:"from" minimum:"0" maximum:"31622400000" doc:"Milliseconds from the start of the video"`
		To      int64  `query:"to" minimum:"0" maximum:"31622400000" doc:"End, as from; defaults to the end of the video"`
		Around  uint64 `query:"around" doc:"seq of a timeline entry, instead of from and to"`

		Before rest.Optional[int64] `query:"before" minimum:"0" maximum:"31622400000" doc:"Milliseconds before the entry; defaults to 2000"`
		After  rest.Optional[int64] `query:"after" minimum:"0" maximum:"31622400000" doc:"Milliseconds after the entry; defaults to 3000"`
	}
)

// openFile is a file that can be sent.
type openFile struct{ *os.File }

func (f openFile) System() *os.File { return f.File }

// clipFile is the file of a clip. Close frees its disk space.
type clipFile struct {
	openFile
	clip  *recording.Clip
	leave func()
}

// Close implements io.Closer.
func (f clipFile) Close() error {
	defer f.leave()
	return f.clip.Close()
}

// inVideo is a number of milliseconds.
func inVideo(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

const aboutDownload = `Supports ranges and conditional requests (RFC 9110), so that players can seek. The download of a running recording
is the video until now; with live, it is a fragmented MP4 that continues until the recording ends.`

const aboutClip = `The clip is from one time to another, or around an entry of the timeline. A clip that begins at a keyframe is copied without
encoding, which is fast; any other is encoded to begin exactly at from. captions.vtt with the same from and to has its captions.`

func (a recordings) registerMedia(r rest.Route) {
	r.Query, r.Errors = true, []int{http.StatusNotFound}
	clip := r.Get("clipRecording", "/recordings/{id}/clip", "Get a clip of a recording").WithAbout(aboutClip).
		WithErrors(http.StatusBadRequest, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	clip.UntilGone = true
	clip.Content = map[string]*huma.MediaType{videoType: rest.Binary()}
	add(a.Area, clip, a.sendClip)
	thumbnails := r.Get("listRecordingThumbnails", "/recordings/{id}/thumbnails", "List the thumbnails of a recording")
	thumbnails.Query = false
	add(a.Area, thumbnails, a.listThumbnails)
	r = r.WithErrors(http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable)
	r.More = map[string]*huma.Response{
		"206": {Description: "The requested range"},
		"304": {Description: http.StatusText(http.StatusNotModified)},
	}
	r.Content = map[string]*huma.MediaType{videoType: rest.Binary()}
	add(a.Area, r.Get("downloadDesktopRecording", "/recordings/{id}/download", "Download a recording").WithAbout(aboutDownload), a.sendVideo)
	r.Content = map[string]*huma.MediaType{pictureType: rest.Binary()}
	add(a.Area, r.Get("getRecordingPoster", "/recordings/{id}/poster.jpg", "Get the poster of a recording").WithAbout("Returns the first frame that is not blank."),
		func(ctx context.Context, in *posterInput) (*rest.FileOutput, error) {
			store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
			if err != nil {
				return nil, err
			}
			f, err := store.Poster(in.ID)
			return a.sendOpen(ctx, in.ID, &rest.FileOutput{ContentType: pictureType}, f, err, &in.Conditions)
		})
	add(a.Area, r.Get("getRecordingThumbnail", "/recordings/{id}/thumbnails/{moment}", "Get a thumbnail of a recording").
		WithAbout("Returns the latest thumbnail that is not after the given time."),
		func(ctx context.Context, in *thumbnailInput) (*rest.FileOutput, error) {
			store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
			if err != nil {
				return nil, err
			}
			ms, _ := strconv.ParseInt(strings.TrimSuffix(in.Moment, ".jpg"), 10, 64) // it has so few digits
			f, _, err := store.Thumbnail(in.ID, inVideo(ms))
			return a.sendOpen(ctx, in.ID, &rest.FileOutput{ContentType: pictureType}, f, err, &in.Conditions)
		})
}

func (a recordings) listThumbnails(ctx context.Context, in *recordingInput) (*thumbnailsOutput, error) {
	store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
	if err != nil {
		return nil, err
	}
	all, err := store.Thumbnails(in.ID)
	out := &thumbnailsOutput{}
	out.Body.Thumbnails = []thumbnailInfo{}
	for _, at := range all {
		ms := at.Milliseconds()
		out.Body.Thumbnails = append(out.Body.Thumbnails, thumbnailInfo{ms, fmt.Sprintf("thumbnails/%d.jpg", ms)})
	}
	return out, missing(in.ID, err)
}

func (a recordings) sendClip(ctx context.Context, in *clipInput) (*rest.FileOutput, error) {
	store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
	if err != nil {
		return nil, err
	}
	req := recording.ClipRequest{
		From: inVideo(in.From), To: inVideo(in.To), Around: in.Around, Before: inVideo(in.Before.Value), After: inVideo(in.After.Value),
	}
	if err := check([]argument{
		{in.Around == 0 && (in.Before.Set || in.After.Set), "around", "around must be given with before and after: the seq of an entry of the timeline"},
		{in.Around != 0 && (in.From != 0 || in.To != 0), "around", "around excludes from and to"},
	}); err != nil {
		return nil, err
	}
	r := rest.RequestIn(ctx)
	leave, bad := a.clips.Enter(r, "too many clips are being made or read with tokens of a scope other than admin")
	if bad != nil {
		return nil, bad
	}
	clip, err := store.Clip(ctx, in.ID, req)
	if err != nil {
		leave()
		return nil, missing(in.ID, err)
	}
	name := fmt.Sprintf("%s-%d-%d.mp4", in.ID, clip.From.Milliseconds(), clip.To.Milliseconds())
	out := &rest.FileOutput{ContentType: videoType, Disposition: rest.Attachment(name), Cache: "private, no-store"}
	// It is made anew for each request, so there are no parts of it to ask for.
	out, err = a.SendFile(out, clipFile{openFile{clip.File}, clip, leave}, clip.Bytes, time.Now(), &rest.Conditions{}, r)
	if err == nil {
		out.AcceptRanges = "none"
	}
	return out, err
}

func (a recordings) sendVideo(ctx context.Context, in *videoInput) (*rest.FileOutput, error) {
	store, err := a.storeFor(ctx, in.Desktop, in.ID, recordingShown)
	if err != nil {
		return nil, err
	}
	if in.Live == "1" || in.Live == "true" {
		return a.followVideo(rest.RequestIn(ctx), store, in.ID)
	}
	f, info, err := store.Video(in.ID)
	return a.sendOpen(ctx, in.ID, &rest.FileOutput{ContentType: videoType, Disposition: rest.Attachment(info.FileName)}, f, err, &in.Conditions)
}

// sendOpen answers with a file of a recording, as large as it is now, or with err.
func (a recordings) sendOpen(ctx context.Context, id string, out *rest.FileOutput, f *os.File, err error, c *rest.Conditions) (*rest.FileOutput, error) {
	if err != nil {
		return nil, missing(id, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	inode := uint64(0)
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = sys.Ino
	}
	// The file grows, and may be replaced by one with the same content.
	out.ETag, out.Cache = fmt.Sprintf(`"%x-%x-%x"`, inode, info.Size(), info.ModTime().UnixNano()), "private, no-cache"
	return a.SendFile(out, openFile{f}, info.Size(), info.ModTime(), c, rest.RequestIn(ctx))
}

// What tokens of scopes other than admin can do at the same time.
const (
	maxLiveDownloads = 64 // clients that follow recordings
	maxGuestClips    = 4  // clips that are being made or read
)

// followVideo sends a recording while it is made.
func (a recordings) followVideo(r *rest.Request, store *recording.Store, id string) (*rest.FileOutput, error) {
	info, err := store.Get(id)
	if err != nil {
		return nil, missing(id, err)
	}
	out := &rest.FileOutput{Status: http.StatusOK, ContentType: videoType, Disposition: rest.Attachment(info.FileName), Cache: "no-store"}
	if r.Method() == http.MethodHead {
		out.Body = func(ctx huma.Context) { ctx.SetStatus(out.Status) }
		return out, nil
	}
	leave, bad := a.liveDownloads.Enter(r, "too many clients follow recordings")
	if bad != nil {
		return nil, bad
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the handler
	context.AfterFunc(ctx, leave)
	video, _, err := store.Live(ctx, id)
	if err != nil {
		cancel()
		return nil, missing(id, err)
	}
	out.OnDiscard(func() {
		cancel()
		_ = video.Close()
	})
	out.Body = func(hc huma.Context) {
		hc.SetStatus(out.Status)
		r := rest.RequestOf(hc)
		ending := a.EntryOf(r.Fiber.Context()).Ending
		r.Stream(func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
			defer cancel()
			defer video.Close()
			go func() { // which cancel ends
				select {
				case <-gone:
				case <-ending:
				case <-ctx.Done():
				}
				cancel()
			}()
			pump(w, flush, video)
		})
	}
	return out, nil
}

// pump copies what it reads immediately.
func pump(w *bufio.Writer, flush func() error, from io.Reader) {
	buf := make([]byte, 32<<10) // many may follow, and most wait
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			if flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
