package desktops

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// screenshotQuery has the parameters of all screenshots.
type screenshotQuery struct {
	Desktop        string  `path:"desktop" default:"main"`
	Format         string  `query:"format" enum:"png,jpeg,webp" default:"png" doc:"Image format; WebP is lossless"`
	Quality        int64   `query:"quality" default:"85" doc:"JPEG quality, 1 to 100"`
	Scale          float64 `query:"scale" default:"1" doc:"Scale factor, 0.1 to 1.0"`
	ShowCursor     bool    `query:"showCursor" doc:"Draw a red cross at the pointer"`
	ShowCursorOld  bool    `query:"show_cursor" hidden:"true"` // see oldSpellings
	CursorStyle    string  `query:"cursorStyle" enum:"none,crosshair,pointer" doc:"Style of the pointer; pointer is its actual image"`
	SettleMS       int64   `query:"settleMs" minimum:"0" doc:"Wait until nothing that matters has changed on the screen for this time; less if all programs are idle"`
	TimeoutMS      int64   `query:"timeoutMs" minimum:"0" doc:"Maximum time to wait for settleMs; defaults to 5000"`
	IfChangedSince string  `query:"ifChangedSince" doc:"Id of an observation; the response is 304 if the screenshot would be the same"`
	IfNoneMatch    string  `header:"If-None-Match" doc:"The same as ifChanged, as an entity tag"`
}

type screenshotOutput struct {
	Status      int
	ContentType string  `header:"Content-Type"`
	ETag        string  `header:"ETag" doc:"Quoted id of the observation"`
	Cache       string  `header:"Cache-Control"`
	Observation string  `header:"Deskhand-Observation" doc:"Id of the observation, for pointer actions with coordinates in this image"`
	Scale       float64 `header:"Deskhand-Scale" doc:"The requested scale"`
	Damage      uint64  `header:"Deskhand-Damage" doc:"Number of changes of the screen"`
	Settled     bool    `header:"Deskhand-Settled" doc:"Whether the screen stopped changing within timeoutMs"`
	SettleMS    int64   `header:"Deskhand-Settle-Ms" doc:"Time that was spent waiting for settleMs"`
	Animating   string  `header:"Deskhand-Animating" doc:"Areas of the picture, such as a caret or a spinner, that kept changing within settleMs: x,y,width,height of each, separated by spaces"`
	Body        func(huma.Context)
}

func (a *Area) registerScreenshots() {
	r := rest.Route{
		Tag: "Screenshots", Query: true, Other: screenshotFailed, Errors: []int{http.StatusBadGateway},
		Content: map[string]*huma.MediaType{"image/png": rest.Binary(), "image/jpeg": rest.Binary(), "image/webp": rest.Binary()},
		More:    map[string]*huma.Response{"304": {Description: "The screenshot has not changed"}},
	}
	act(a, r.Get("takeScreenshot", "/screenshot", "Take a screenshot"),
		func(ctx context.Context, in *screenshotQuery) (*screenshotOutput, error) {
			return a.takeScreenshot(ctx, in, nil, nil)
		})
	type Screenshot screenshotQuery // huma sees embedded fields only under an exported name
	type regionInput struct {
		X      int64 `query:"x" required:"true" minimum:"-2147483648" maximum:"2147483647"`
		Y      int64 `query:"y" required:"true" minimum:"-2147483648" maximum:"2147483647"`
		Width  int64 `query:"width" required:"true" minimum:"0" maximum:"4294967295"`
		Height int64 `query:"height" required:"true" minimum:"0" maximum:"4294967295"`
		Screenshot
	}
	act(a, r.Get("takeRegionScreenshot", "/screenshot/region", "Take a screenshot of a region").
		WithAbout("The region is clipped to the screen."),
		func(ctx context.Context, in *regionInput) (*screenshotOutput, error) {
			region, bad := regionOf(in.X, in.Y, in.Width, in.Height)
			return a.takeScreenshot(ctx, (*screenshotQuery)(&in.Screenshot), &region, bad)
		})
}

func (q *screenshotQuery) check() error {
	return check([]argument{
		{q.Quality < 1 || q.Quality > 100, "quality", "quality must be between 1 and 100"},
		{math.IsNaN(q.Scale) || q.Scale < 0.1 || q.Scale > 1, "scale", "scale must be between 0.1 and 1.0"},
		{q.SettleMS > 60_000, "settleMs", "settleMs must be between 0 and 60000"},
		{q.TimeoutMS > 300_000, "timeoutMs", "timeoutMs must be between 0 and 300000"},
	})
}

// regionOf returns a part of the screen.
func regionOf(x, y, width, height int64) (desktop.Rect, error) {
	const inside, empty = "Desktop coordinates must be non-negative", "Screenshot region width and height must be greater than 0"
	return desktop.Rect{X: int(x), Y: int(y), Width: int(width), Height: int(height)}, check([]argument{
		{x < 0, "x", inside}, {y < 0, "y", inside}, {width == 0, "width", empty}, {height == 0, "height", empty},
	})
}

// cursor returns how to draw the pointer; cursorStyle wins over showCursor.
func (q *screenshotQuery) cursor() desktop.CursorStyle {
	switch {
	case q.CursorStyle == "pointer":
		return desktop.CursorPointer
	case q.CursorStyle == "crosshair", q.CursorStyle == "" && (q.ShowCursor || q.ShowCursorOld):
		return desktop.CursorCrosshair
	}
	return desktop.CursorNone
}

// takeScreenshot takes a screenshot. bad is what is wrong with the region.
func (a *Area) takeScreenshot(ctx context.Context, q *screenshotQuery, region *desktop.Rect, bad error) (*screenshotOutput, error) {
	d, err := running[computer.Screen](a, q.Desktop, bad, q.check())
	if err != nil {
		return nil, err
	}
	known := knownObservations(q)
	o := desktop.ScreenshotOptions{
		Region: region, Format: desktop.Format(q.Format), Quality: int(q.Quality), Scale: q.Scale, Cursor: q.cursor(),
		Settle:        time.Duration(q.SettleMS) * time.Millisecond,
		SettleTimeout: time.Duration(q.TimeoutMS) * time.Millisecond,
	}
	if len(known) > 0 {
		o.IfChangedSince = known[0]
	}
	pic, err := d.Screenshot(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &screenshotOutput{
		Status: http.StatusOK, ContentType: "image/" + string(pic.Format), ETag: strconv.Quote(pic.ID),
		Cache: "private, no-cache", Observation: pic.ID, Scale: pic.Scale, Damage: pic.Damage,
		Settled: pic.Settled.Quiet, SettleMS: pic.Settled.Elapsed.Milliseconds(), Animating: headerRects(pic.Animating()),
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

// headerRects returns rectangles in the form of Deskhand-Animating.
func headerRects(all []desktop.Rect) string {
	list := make([]string, len(all))
	for i, r := range all {
		list[i] = fmt.Sprintf("%d,%d,%d,%d", r.X, r.Y, r.Width, r.Height)
	}
	return strings.Join(list, " ")
}

// knownObservations returns the ids of the observations of which the client has the
// picture (RFC 9110, section 13.1.2).
func knownObservations(q *screenshotQuery) []string {
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
