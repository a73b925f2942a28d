package desktops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"net/http"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

const aboutElements = `Returns the elements that programs offer on the accessibility bus (AT-SPI): the elements on the screen, without
containers that have no name. The outline has a line for each element, below its parent:
@e12 button "Save" [812,40 64x28] focused. A reference such as @e12 stays valid while its element lives. Elements that do
not show (all=true), and the text of fields and terminals, need a token of scope control. No answer has the text of a
password field. name and text are exact, or regular expressions after a tilde: ~^Save.`

const aboutElementUse = `Uses the program's own action if its effect is visible, else the pointer or the keyboard; the answer names it in
via. A click uses the pointer if it can reach the element. If the element is gone, the problem is stale_element, with the most similar
element in details.nearest.`

type elementInfo struct {
	Ref      string      `json:"ref" example:"@e12"`
	Role     string      `json:"role" doc:"AT-SPI's name of the role" example:"button"`
	Name     string      `json:"name,omitempty"`
	Value    string      `json:"value,omitempty" doc:"Of sliders, progress bars and the like: a number"`
	States   []string    `json:"states" nullable:"false" doc:"AT-SPI's names of the states"`
	Box      *elementBox `json:"box,omitempty" doc:"Left out if the element is not on the screen, or its place is unknown"`
	Window   string      `json:"window,omitempty" doc:"Id of the window"`
	Actions  []string    `json:"actions,omitempty" nullable:"false" doc:"Names of the program's own actions"`
	Text     string      `json:"text,omitempty" doc:"At most its first 1000 characters"`
	Parent   string      `json:"parent,omitempty" doc:"Reference of the parent"`
	Children []string    `json:"children,omitempty" nullable:"false" doc:"References of the children"`
}

type elementBox struct {
	X      int `json:"x"`
	Y      int `json:"y"`
	Width  int `json:"width"`
	Height int `json:"height"`
}

type skippedApp struct {
	App    string `json:"app"`
	PID    int    `json:"pid,omitempty"`
	Window string `json:"window,omitempty"`
	Reason string `json:"reason" enum:"hangs,no accessibility,budget,no states"`
}

type markedScreenshot struct {
	MediaType   string `json:"mediaType" example:"image/png"`
	Data        []byte `json:"data" doc:"Base64"`
	Observation string `json:"observation" doc:"Id of the observation, for pointer actions with coordinates in this picture"`
}

type elementTree struct {
	Outline     string            `json:"outline,omitempty" doc:"With format=outline: a line for each element"`
	Elements    []elementInfo     `json:"elements,omitzero" nullable:"false" doc:"With format=json, each after its parent"`
	Truncated   bool              `json:"truncated" doc:"Elements are missing, because of limit, timeoutMs or a limit of memory"`
	SkippedApps []skippedApp      `json:"skippedApps" nullable:"false" doc:"Programs of which elements are missing, and why"`
	Screenshot  *markedScreenshot `json:"screenshot,omitempty" doc:"With marks=true: the screen, with a numbered box for each element"`
}

type elementsInput struct {
	Desktop     string   `path:"desktop" default:"main"`
	Window      string   `query:"window" doc:"Id of a window; left out: all"`
	Root        string   `query:"root" doc:"Reference of an element: the element and its descendants" example:"@e3"`
	Role        string   `query:"role" example:"button"`
	Name        string   `query:"name" example:"~^Save"`
	Text        string   `query:"text"`
	States      []string `query:"states" doc:"That elements must have, separated by commas" example:"focusable,enabled"`
	All         bool     `query:"all" doc:"Also elements that are not on the screen"`
	Depth       int      `query:"depth" minimum:"0" doc:"Levels below the windows, or below root; 100 when left out"`
	Limit       int      `query:"limit" default:"300" doc:"Elements, 1 to 5000"`
	TimeoutMS   int64    `query:"timeoutMs" default:"300" doc:"For each program; programs are asked concurrently"`
	Format      string   `query:"format" enum:"outline,json" default:"outline"`
	Marks       bool     `query:"marks" doc:"Add a screenshot with numbered boxes"`
	MaxEdge     uint32   `query:"maxEdge" doc:"Longest edge of that screenshot in pixels; a larger one is scaled down, and boxes are in it"`
	Observation string   `query:"observation" doc:"Id of a screenshot: boxes are then in that picture"`
}

type elementMatch struct {
	Role      *string  `json:"role,omitempty" example:"button"`
	Name      *string  `json:"name,omitempty" doc:"Exact, or a regular expression after a tilde" example:"~^Save"`
	Text      *string  `json:"text,omitempty" doc:"As name"`
	States    []string `json:"states,omitempty" nullable:"false" example:"[\"enabled\"]"`
	Window    *string  `json:"window,omitempty" doc:"Id of a window; left out: all"`
	All       *bool    `json:"all,omitempty" doc:"Also elements that are not on the screen; needs a token of scope control"`
	Limit     *int     `json:"limit,omitempty" doc:"1 to 5000; 300 when left out"`
	TimeoutMS *int64   `json:"timeoutMs,omitempty" doc:"300 when left out"`
}

type elementWait struct {
	Role      *string  `json:"role,omitempty" example:"button"`
	Name      *string  `json:"name,omitempty" doc:"Exact, or a regular expression after a tilde" example:"~^Save"`
	Text      *string  `json:"text,omitempty" doc:"As name"`
	States    []string `json:"states,omitempty" nullable:"false" example:"[\"enabled\"]"`
	Window    *string  `json:"window,omitempty" doc:"Id of a window; left out: all"`
	Gone      *bool    `json:"gone,omitempty" doc:"Wait until no element matches"`
	TimeoutMS *int64   `json:"timeoutMs,omitempty" doc:"10000 when left out, at most 600000"`
}

type elementFound struct {
	Element *elementInfo `json:"element,omitempty" doc:"The first that matches; left out with gone"`
}

type elementUse struct {
	Do    string  `json:"do" enum:"click,focus,setText,setValue,select,expand,collapse,scrollIntoView,menu"`
	Value *string `json:"value,omitempty" doc:"The text, the number, or the name of the option to select"`
}

type elementUseInput struct {
	Desktop string `path:"desktop" default:"main"`
	Ref     string `path:"ref" doc:"Reference of the element, with or without @" example:"e12"`
	Body    elementUse
}

type elementDone struct {
	Via string `json:"via" enum:"action,pointer,nothing" doc:"nothing: it was in that state already"`
	X   *int   `json:"x,omitempty" doc:"Where the pointer clicked, on the screen"`
	Y   *int   `json:"y,omitempty"`
}

func registerElements(a *Area) {
	r := rest.Route{Tag: "Elements", Other: inputFailed, Errors: []int{http.StatusNotFound, http.StatusNotImplemented}}
	act(a, r.Get("getElements", "/elements", "List the elements of programs").WithAbout(aboutElements),
		func(ctx context.Context, in *elementsInput) (*rest.Output[elementTree], error) {
			tree, err := elementsFor(ctx, a, in)
			return rest.Reply(tree, err)
		})
	look := r
	look.Scope = grants.ScopeView
	act(a, look.Post("findElements", "/elements/find", "Find elements").WithAbout("The elements that match, without those around them."),
		func(ctx context.Context, in *input[elementMatch]) (*rest.Output[elementTree], error) {
			b := in.Body
			tree, err := elementsFor(ctx, a, &elementsInput{
				Desktop: in.Desktop, Window: rest.Value(b.Window), Role: rest.Value(b.Role), Name: rest.Value(b.Name), Text: rest.Value(b.Text), States: b.States,
				All: rest.Value(b.All), Limit: orElse(b.Limit, accessibility.DefaultLimit),
				TimeoutMS: orElse(b.TimeoutMS, accessibility.DefaultTimeout.Milliseconds()), Format: "json",
			})
			return rest.Reply(tree, err)
		})
	act(a, look.Post("waitForElement", "/elements/wait", "Wait for an element").WithAbout("If no element matches in time, or with gone one still does, the problem is timeout."),
		func(ctx context.Context, in *input[elementWait]) (*rest.Output[elementFound], error) {
			e, err := waitForElement(ctx, a, in.Desktop, &in.Body)
			return rest.Reply(elementFound{e}, err)
		})
	act(a, r.Post("useElement", "/elements/{ref}", "Do something with an element").WithAbout(aboutElementUse),
		func(ctx context.Context, in *elementUseInput) (*rest.Output[elementDone], error) {
			tree, err := elementsOf(ctx, a, in.Desktop)
			if err != nil {
				return nil, err
			}
			done, err := tree.Do(ctx, accessibility.Action{Ref: in.Ref, Do: accessibility.Verb(in.Body.Do), Value: rest.Value(in.Body.Value)})
			out := elementDone{Via: done.Via}
			if done.At != nil {
				out.X, out.Y = &done.At.X, &done.At.Y
			}
			return rest.Reply(out, err)
		})
}

func orElse[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// elementsOf returns the elements of a running desktop.
func elementsOf(ctx context.Context, a *Area, id string) (*accessibility.Tree, error) {
	inst, err := a.fleet.Find(id)
	if err != nil {
		return nil, err
	}
	return inst.Elements(ctx)
}

// elementsFor returns the elements that a request selects.
func elementsFor(ctx context.Context, a *Area, in *elementsInput) (out elementTree, err error) {
	g := rest.GrantOf(ctx)
	if in.All && onlyViews(g) {
		return out, rest.PermissionDenied.Problem("permission denied: elements that do not show (all) need a token of scope control")
	}
	if in.Limit < 1 || in.TimeoutMS < 1 {
		return out, invalidArgument("limit", "limit and timeoutMs must be greater than 0")
	}
	q := accessibility.Query{
		Match: accessibility.Match{Role: in.Role, Name: in.Name, Text: in.Text, States: in.States},
		Root:  in.Root, All: in.All, Depth: in.Depth, Limit: in.Limit, Timeout: millis(in.TimeoutMS), Actions: in.Format == "json",
		HideFieldText: onlyViews(g),
	}
	if q.Window, err = windowNumberOr0(in.Window); err != nil {
		return out, err
	}
	if in.Observation != "" {
		o, err := desktop.ParseObservation(in.Observation)
		if err != nil {
			return out, err
		}
		q.Picture = &o
	}
	tree, err := elementsOf(ctx, a, in.Desktop)
	if err != nil {
		return out, err
	}
	var shot *desktop.Screenshot
	if in.Marks { // before the elements, which are then never older
		if shot, err = pictureToMark(ctx, a, in.Desktop, int(in.MaxEdge)); err != nil {
			return out, err
		}
		q.Picture = &shot.Observation
	}
	s, err := tree.Snapshot(ctx, q)
	if err != nil {
		return out, err
	}
	out = elementTree{Truncated: s.Truncated, SkippedApps: []skippedApp{}}
	for _, k := range s.Skipped {
		out.SkippedApps = append(out.SkippedApps, skippedApp{k.App, k.PID, windowID(k.Window), k.Reason})
	}
	if in.Format == "json" {
		out.Elements = make([]elementInfo, 0, len(s.Elements))
		for i := range s.Elements {
			out.Elements = append(out.Elements, elementOf(&s.Elements[i]))
		}
	} else {
		out.Outline = s.Outline()
	}
	if shot != nil {
		place := marking[rest.RequestIn(ctx).Limited()]
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			return out, ctx.Err()
		}
		defer func() { <-place }()
		out.Screenshot, err = marked(shot, s.Elements)
	}
	return out, err
}

// onlyViews reports whether a token sees the desktop without controlling it.
func onlyViews(g *grants.Grant) bool { return g != nil && !g.Scope.Allows(grants.ScopeControl) }

func pictureToMark(ctx context.Context, a *Area, id string, maxEdge int) (*desktop.Screenshot, error) {
	d, err := running[interface {
		Screenshot(context.Context, desktop.ScreenshotOptions) (*desktop.Screenshot, error)
	}](a, id)
	if err != nil {
		return nil, err
	}
	return d.Screenshot(ctx, desktop.ScreenshotOptions{MaxEdge: maxEdge})
}

// marking has a place for the picture that is being marked for a guest token, and one for others:
// a picture of the largest screen takes 512 MiB meanwhile.
var marking = map[bool]chan struct{}{true: make(chan struct{}, 1), false: make(chan struct{}, 1)}

// marked draws the boxes of elements on a screenshot.
func marked(shot *desktop.Screenshot, elements []accessibility.Element) (*markedScreenshot, error) {
	decoded, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		return nil, fmt.Errorf("mark the screenshot: %w", err)
	}
	picture := image.NewRGBA(decoded.Bounds())
	draw.Draw(picture, picture.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
	accessibility.Mark(picture, elements)
	var data bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&data, picture); err != nil {
		return nil, fmt.Errorf("mark the screenshot: %w", err)
	}
	return &markedScreenshot{"image/png", data.Bytes(), shot.ID}, nil
}

func waitForElement(ctx context.Context, a *Area, id string, b *elementWait) (*elementInfo, error) {
	window, err := windowNumberOr0(rest.Value(b.Window))
	if err != nil {
		return nil, err
	}
	if b.TimeoutMS != nil && *b.TimeoutMS < 1 {
		return nil, invalidArgument("timeoutMs", "timeoutMs must be greater than 0")
	}
	tree, err := elementsOf(ctx, a, id)
	if err != nil {
		return nil, err
	}
	e, err := tree.Wait(ctx, accessibility.Condition{
		Match:  accessibility.Match{Role: rest.Value(b.Role), Name: rest.Value(b.Name), Text: rest.Value(b.Text), States: b.States},
		Window: window, Gone: rest.Value(b.Gone), Timeout: millis(rest.Value(b.TimeoutMS)),
		HideFieldText: onlyViews(rest.GrantOf(ctx)),
	})
	if err != nil || rest.Value(b.Gone) {
		return nil, err
	}
	info := elementOf(&e)
	return &info, nil
}

// millis returns a time in milliseconds. Times that are too long for a time.Duration are long.
func millis(ms int64) time.Duration { return time.Duration(min(ms, 1<<40)) * time.Millisecond }

// windowNumberOr0 is windowNumber for an id that may be left out.
func windowNumberOr0(id string) (desktop.WindowID, error) {
	if id == "" {
		return 0, nil
	}
	return windowNumber(id)
}

func elementOf(e *accessibility.Element) elementInfo {
	info := elementInfo{
		Ref: e.Ref, Role: e.Role, Name: e.Name, Value: e.Value, States: e.States, Window: windowID(e.Window), Actions: e.Actions,
		Text: e.Text, Parent: e.Parent, Children: e.Children,
	}
	if e.Box != nil {
		info.Box = &elementBox{e.Box.X, e.Box.Y, e.Box.Width, e.Box.Height}
	}
	return info
}

// elementFields maps the fields of accessibility.InvalidError to the fields of requests, where
// more than the case of the first letter differs.
var elementFields = map[string]string{"Timeout": "timeoutMs"}

// elementProblem returns the problem for an error of package accessibility, or nil if err is
// another error.
func elementProblem(err error) *rest.Problem {
	var bad *accessibility.InvalidError
	var stale *accessibility.StaleError
	switch {
	case errors.As(err, &bad):
		field := elementFields[bad.Field]
		if field == "" {
			field = desktopField(bad.Field)
		}
		return invalidArgument(field, field+" "+bad.Reason)
	case errors.As(err, &stale):
		p := staleElement.WithCode(stale.Error() + "; GET the elements for those that exist")
		if stale.Nearest != nil {
			p = p.With("details", map[string]any{"message": stale.Error(), "nearest": elementOf(stale.Nearest)})
		}
		return p
	case errors.Is(err, accessibility.ErrRefused):
		return elementRefused.WithCode(err.Error())
	case errors.Is(err, accessibility.ErrUnavailable):
		return dependenciesMissing.WithCode(rest.Sentence(err)).With("missingDependencies", []string{"at-spi2-core"}).With("installCommand", installCommand)
	case rest.IsAny(err, accessibility.ErrNotFound, accessibility.ErrPresent, accessibility.ErrTimeout):
		return rest.TimedOut.Problem("timeout: "+err.Error()).With("details", map[string]any{"message": err.Error()})
	case errors.Is(err, accessibility.ErrClosed):
		return notStarted()
	case errors.Is(err, fleet.ErrNoElements):
		return unsupportedAction.WithCode("This kind of desktop has no elements")
	}
	return nil
}
