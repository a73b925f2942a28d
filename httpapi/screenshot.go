package httpapi

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// shotQuery are the query parameters that all screenshots have.
type shotQuery struct {
	Format         string  `query:"format" enum:"png,jpeg,webp" default:"png" doc:"WebP is lossless"`
	Quality        int64   `query:"quality" default:"85" doc:"Of JPEG, 1 to 100"`
	Scale          float64 `query:"scale" default:"1" doc:"0.1 to 1.0"`
	ShowCursor     bool    `query:"showCursor" doc:"Draw a red cross at the pointer"`
	ShowCursorOld  bool    `query:"show_cursor" hidden:"true"` // see oldSpellings
	CursorStyle    string  `query:"cursorStyle" enum:"none,crosshair,pointer" doc:"How to draw the pointer; pointer is its real image"`
	SettleMS       int64   `query:"settleMs" minimum:"0" doc:"Wait until the screen has been still for that long"`
	TimeoutMS      int64   `query:"timeoutMs" minimum:"0" doc:"Wait at most that long for settleMs; 5000 when left out"`
	IfChangedSince string  `query:"ifChangedSince" doc:"Id of an observation: 304 when the picture would be the same"`
	IfNoneMatch    string  `header:"If-None-Match" doc:"The same, as an entity tag"`
}

type shotOutput struct {
	Status      int
	ContentType string  `header:"Content-Type"`
	ETag        string  `header:"ETag" doc:"The observation's id, quoted"`
	Cache       string  `header:"Cache-Control"`
	Observation string  `header:"Deskhand-Observation" doc:"Pass it with a pointer action whose coordinates are in this picture"`
	Scale       float64 `header:"Deskhand-Scale" doc:"The scale asked for"`
	Damage      uint64  `header:"Deskhand-Damage" doc:"Counts the changes of the screen"`
	Settled     bool    `header:"Deskhand-Settled" doc:"Whether the screen became still within timeoutMs"`
	Body        func(huma.Context)
}

func (s *Server) registerScreenshots() {
	r := rest.Route{
		Method: http.MethodGet, Tag: "Screenshots", Query: true, Other: rest.ScreenshotFailed,
		Errors: []int{http.StatusBadGateway},
		Content: map[string]*huma.MediaType{
			"image/png": rest.Binary(), "image/jpeg": rest.Binary(), "image/webp": rest.Binary(),
		},
	}
	r.More = map[string]*huma.Response{"304": {Description: "The client has that picture"}}
	r.ID, r.Path, r.Summary = "takeScreenshot", "/screenshot", "Take a picture of the screen"
	on(s, r, func(in *shotQuery) error { return in.check() },
		func(ctx context.Context, d Desktop, in *shotQuery) (*shotOutput, error) {
			return shoot(ctx, d, in, nil)
		})
	s.registerRegion(r)
}

func (s *Server) registerRegion(r rest.Route) {
	type Shot = shotQuery // huma sees embedded fields only under an exported name
	type regionInput struct {
		X      int64 `query:"x" required:"true" minimum:"-2147483648" maximum:"2147483647"`
		Y      int64 `query:"y" required:"true" minimum:"-2147483648" maximum:"2147483647"`
		Width  int64 `query:"width" required:"true" minimum:"0" maximum:"4294967295"`
		Height int64 `query:"height" required:"true" minimum:"0" maximum:"4294967295"`
		Shot
	}
	rect := func(in *regionInput) desktop.Rect {
		return desktop.Rect{X: int(in.X), Y: int(in.Y), Width: int(in.Width), Height: int(in.Height)}
	}
	r.ID, r.Path, r.Summary = "takeRegionScreenshot", "/screenshot/region", "Take a picture of a part of the screen"
	r.About = "What lies outside the screen is cut off."
	on(s, r, func(in *regionInput) error {
		if err := checkRegion(rect(in)); err != nil {
			return err
		}
		return in.check()
	}, func(ctx context.Context, d Desktop, in *regionInput) (*shotOutput, error) {
		region := rect(in)
		return shoot(ctx, d, &in.Shot, &region)
	})
}

func (q *shotQuery) check() error {
	switch {
	case q.Quality < 1 || q.Quality > 100:
		return rest.InvalidArgument("quality", "quality must be between 1 and 100")
	case math.IsNaN(q.Scale) || q.Scale < 0.1 || q.Scale > 1:
		return rest.InvalidArgument("scale", "scale must be between 0.1 and 1.0")
	case q.SettleMS > 60_000:
		return rest.InvalidArgument("settleMs", "settleMs must be between 0 and 60000")
	case q.TimeoutMS > 300_000:
		return rest.InvalidArgument("timeoutMs", "timeoutMs must be between 0 and 300000")
	}
	return nil
}

func checkRegion(q desktop.Rect) error {
	switch {
	case q.X < 0:
		return rest.InvalidArgument("x", "Desktop coordinates must be non-negative")
	case q.Y < 0:
		return rest.InvalidArgument("y", "Desktop coordinates must be non-negative")
	case q.Width == 0:
		return rest.InvalidArgument("width", "Screenshot region width and height must be greater than 0")
	case q.Height == 0:
		return rest.InvalidArgument("height", "Screenshot region width and height must be greater than 0")
	}
	return nil
}

// cursor is how to show the pointer; cursorStyle wins over showCursor.
func (q *shotQuery) cursor() desktop.CursorStyle {
	switch {
	case q.CursorStyle == "pointer":
		return desktop.CursorPointer
	case q.CursorStyle == "crosshair", q.CursorStyle == "" && (q.ShowCursor || q.ShowCursorOld):
		return desktop.CursorCrosshair
	}
	return desktop.CursorNone
}

func shoot(ctx context.Context, d Desktop, q *shotQuery, region *desktop.Rect) (*shotOutput, error) {
	known := knownObservations(q)
	shot := desktop.ScreenshotOptions{
		Region: region, Format: desktop.Format(q.Format), Quality: int(q.Quality), Scale: q.Scale, Cursor: q.cursor(),
		Settle:        time.Duration(q.SettleMS) * time.Millisecond,
		SettleTimeout: time.Duration(q.TimeoutMS) * time.Millisecond,
	}
	if len(known) > 0 {
		shot.IfChangedSince = known[0]
	}
	pic, err := d.Screenshot(ctx, shot)
	if err != nil {
		return nil, err
	}
	out := &shotOutput{
		Status: http.StatusOK, ContentType: "image/" + string(pic.Format), ETag: strconv.Quote(pic.ID),
		Cache: "private, no-cache", Observation: pic.ID, Scale: pic.Scale, Damage: pic.Damage, Settled: pic.Settled,
	}
	if pic.Unchanged || slices.Contains(known, pic.ID) {
		out.Status, out.ContentType, pic.Data = http.StatusNotModified, "", nil
	}
	out.Body = func(ctx huma.Context) {
		ctx.SetStatus(out.Status)
		if pic.Data != nil {
			rest.RequestOf(ctx).Send(pic.Data)
		}
	}
	return out, nil
}

// knownObservations are those that the client has a picture of (RFC 9110,
// section 13.1.2).
func knownObservations(q *shotQuery) []string {
	var ids []string
	if q.IfChangedSince != "" {
		ids = append(ids, q.IfChangedSince)
	}
	for tag := range strings.SplitSeq(q.IfNoneMatch, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if id := strings.Trim(tag, `"`); id != "" && id != tag {
			ids = append(ids, id)
		}
	}
	return ids
}
