package httpapi

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
	"sync"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

const (
	videoType   = "video/mp4"
	pictureType = "image/jpeg"
	textType    = "text/vtt; charset=utf-8"
)

type (
	// videoInput asks for a video.
	videoInput struct {
		RecordingID
		rest.RawRequest
		Live string `query:"live" enum:"true,false,1,0" doc:"Follow one that goes on until it ends: the answer has no length and no parts"`
		rest.Conditions
	}

	// fileInput asks for another file of a recording.
	fileInput struct {
		RecordingID
		rest.RawRequest
		rest.Conditions
	}

	thumbnailInput struct {
		RecordingID
		rest.RawRequest
		Moment string `path:"moment" pattern:"^[0-9]{1,12}(\\.jpg)?$" doc:"Milliseconds from the beginning of the video; .jpg may follow" example:"1500.jpg"`
		rest.Conditions
	}

	thumbnailInfo struct {
		At   int64  `json:"at" doc:"Milliseconds from the beginning of the video"`
		Path string `json:"path" doc:"Below the recording's own"`
	}

	thumbnailsOutput struct {
		Body struct {
			Thumbnails []thumbnailInfo `json:"thumbnails" nullable:"false"`
		}
	}
)

// openFile is a file that can be sent.
type openFile struct{ *os.File }

func (f openFile) System() *os.File { return f.File }

const aboutDownload = `A range of it, and conditions, are answered as RFC 9110 has them, so that players can seek. While it goes on this is what
there is so far; with live it follows until the end, as a fragmented MP4.`

func (s *Server) registerRecordingMedia() {
	r := rest.Route{Method: http.MethodGet, Tag: recordingTag, Query: true}
	r.More = map[string]*huma.Response{
		"206": {Description: "The range that was asked for"},
		"304": {Description: http.StatusText(http.StatusNotModified)},
	}
	r.Errors = []int{http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable}
	video := r
	video.ID, video.Path, video.Summary, video.About = "downloadDesktopRecording", "/recordings/{id}/download", "Download a recording", aboutDownload
	video.Content = map[string]*huma.MediaType{videoType: rest.Binary()}
	onRecording(s, video, s.sendVideo)
	picture := r
	picture.Content = map[string]*huma.MediaType{pictureType: rest.Binary()}
	picture.ID, picture.Path, picture.Summary = "getRecordingPoster", "/recordings/{id}/poster.jpg", "Get a picture of a recording"
	picture.About = "The first one that is not blank."
	onRecording(s, picture, func(_ context.Context, store *recording.Store, in *fileInput) (*rest.FileOutput, error) {
		f, err := store.Poster(in.ID)
		if err != nil {
			return nil, noPicture(err, in.ID)
		}
		return s.sendOpen(&rest.FileOutput{ContentType: pictureType}, f, &in.Conditions, in.Request())
	})
	picture.ID, picture.Path, picture.Summary = "getRecordingThumbnail", "/recordings/{id}/thumbnails/{moment}", "Get a small picture of a moment"
	picture.About = "The latest one that is not after that moment."
	onRecording(s, picture, func(_ context.Context, store *recording.Store, in *thumbnailInput) (*rest.FileOutput, error) {
		ms, _ := strconv.ParseInt(strings.TrimSuffix(in.Moment, ".jpg"), 10, 64) // it has so few digits
		f, _, err := store.Thumbnail(in.ID, inVideo(ms))
		if err != nil {
			return nil, noPicture(err, in.ID)
		}
		return s.sendOpen(&rest.FileOutput{ContentType: pictureType}, f, &in.Conditions, in.Request())
	})
	thumbnails := rest.Route{Method: http.MethodGet, Tag: recordingTag}
	thumbnails.ID, thumbnails.Path, thumbnails.Summary = "listRecordingThumbnails", "/recordings/{id}/thumbnails", "List a recording's small pictures"
	onRecording(s, thumbnails, func(_ context.Context, store *recording.Store, in *recordingID) (*thumbnailsOutput, error) {
		all, err := store.Thumbnails(in.ID)
		out := &thumbnailsOutput{}
		out.Body.Thumbnails = []thumbnailInfo{}
		for _, at := range all {
			ms := at.Milliseconds()
			out.Body.Thumbnails = append(out.Body.Thumbnails, thumbnailInfo{ms, fmt.Sprintf("thumbnails/%d.jpg", ms)})
		}
		return out, err
	})
	s.registerClip()
	s.registerCaptions()
}

// noPicture is the answer when a recording has no picture, or not yet.
func noPicture(err error, id string) error {
	if errors.Is(err, recording.ErrNoPicture) {
		return rest.Missing("desktop_recording_file", id)
	}
	return err
}

func (s *Server) sendVideo(ctx context.Context, store *recording.Store, in *videoInput) (*rest.FileOutput, error) {
	if in.Live == "1" || in.Live == "true" {
		return s.followVideo(ctx, store, in)
	}
	f, info, err := store.Video(in.ID)
	if err != nil {
		return nil, err
	}
	return s.sendOpen(&rest.FileOutput{ContentType: videoType, Disposition: rest.Attachment(info.FileName)}, f, &in.Conditions, in.Request())
}

// sendOpen answers with a file of a recording, as large as it is now.
func (s *Server) sendOpen(out *rest.FileOutput, f *os.File, c *rest.Conditions, r *rest.Request) (*rest.FileOutput, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	inode := uint64(0)
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = sys.Ino
	}
	out.ETag, out.Cache = recordingTagOf(info, inode), "private, no-cache"
	return s.rest.SendFile(out, openFile{f}, info.Size(), info.ModTime(), c, r)
}

// maxLiveDownloads is how many clients follow recordings with tokens of a scope other than
// admin.
const maxLiveDownloads = 64

// followVideo sends a recording while it is made.
func (s *Server) followVideo(_ context.Context, store *recording.Store, in *videoInput) (*rest.FileOutput, error) {
	info, err := store.Get(in.ID)
	if err != nil {
		return nil, err
	}
	out := &rest.FileOutput{Status: http.StatusOK, ContentType: videoType, Disposition: rest.Attachment(info.FileName), Cache: "no-store"}
	if in.Request().Method() == http.MethodHead {
		out.Body = func(ctx huma.Context) { ctx.SetStatus(out.Status) }
		return out, nil
	}
	leave := func() {}
	if in.Request().Limited() {
		select {
		case s.liveDownloads <- struct{}{}:
			leave = sync.OnceFunc(func() { <-s.liveDownloads })
		default:
			return nil, rest.NoRoom.Problem("too many clients follow recordings; try again later").WithHeader(fiber.HeaderRetryAfter, "5")
		}
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the handler
	context.AfterFunc(ctx, leave)
	video, _, err := store.Live(ctx, in.ID)
	if err != nil {
		cancel()
		return nil, err
	}
	out.Body = func(hc huma.Context) {
		hc.SetStatus(out.Status)
		r := rest.RequestOf(hc)
		ending := s.rest.EntryOf(r.Fiber.Context()).Ending
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

// pump copies what comes, as soon as it does.
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
