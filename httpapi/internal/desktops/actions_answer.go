package desktops

import (
	"encoding/json"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// box is a rectangle: x, y, width and height.
type box [4]int

type actionsAnswer struct {
	Results     []actionResult  `json:"results" nullable:"false" doc:"Results of the executed actions, in order"`
	Done        int             `json:"done" doc:"Number of actions that succeeded"`
	Stopped     *stoppedBody    `json:"stopped,omitempty" doc:"Why the list ended early; omitted if all actions were executed"`
	Observation observationBody `json:"observation"`
	Screenshot  *pictureBody    `json:"screenshot,omitempty" doc:"Omitted if it was not asked for, or nothing changed since the observation that the client has"`
	Windows     []windowInfo    `json:"windows,omitempty" doc:"All windows, if asked for; their positions are on the screen"`
	Elements    *outlineBody    `json:"elements,omitempty"`
	Clipboard   *string         `json:"clipboard,omitempty"`
}

type actionResult struct {
	Type    string          `json:"type"`
	OK      bool            `json:"ok"`
	X       *int            `json:"x,omitempty" doc:"Position of the pointer, in the picture of the request's observation, or on the screen"`
	Y       *int            `json:"y,omitempty"`
	Window  string          `json:"window,omitempty" doc:"ID of the window under the pointer, or that the action opened, focused or waited for"`
	App     *launched       `json:"app,omitempty" doc:"Program that the action started"`
	Via     string          `json:"via,omitempty" doc:"How an action on an element was executed"`
	Value   json.RawMessage `json:"value,omitempty" doc:"Result of an action of the browser"`
	Settled *bool           `json:"settled,omitempty" doc:"Whether a wait until settled found the screen settled"`
	MS      int64           `json:"ms" doc:"Duration in milliseconds"`
	Error   *actionFailure  `json:"error,omitempty"`
}

type actionFailure struct {
	Type   string `json:"type" doc:"Type of the problem that the action's own route answers with"`
	Detail string `json:"detail"`
}

type stoppedBody struct {
	Reason string `json:"reason" enum:"failure,window,focus,control"`
	Index  int    `json:"index" doc:"Index of the action that failed or was interrupted, or after which the list ended"`
	Detail string `json:"detail"`
}

type observationBody struct {
	ID            string          `json:"id" doc:"Name it in the next request, whose coordinates are then in this picture"`
	Width         int             `json:"width" doc:"Width of the whole picture"`
	Height        int             `json:"height"`
	Scale         float64         `json:"scale"`
	Settled       bool            `json:"settled" doc:"Whether the screen stopped changing within the time limit"`
	SettleMS      int64           `json:"settleMs" doc:"How long it took"`
	Changed       []box           `json:"changed" nullable:"false" doc:"What changed since the observation that the client has, in the picture"`
	Animating     []box           `json:"animating" nullable:"false" doc:"Areas of the picture, such as a caret or a spinner, that kept changing; x, y, width, height"`
	Focused       *windowInfo     `json:"focused" doc:"Window that has the focus"`
	WindowsOpened []windowInfo    `json:"windowsOpened" nullable:"false"`
	WindowsClosed []windowInfo    `json:"windowsClosed" nullable:"false"`
	Control       observedControl `json:"control"`
	Meanwhile     []activity.Deed `json:"meanwhile,omitempty" nullable:"false" doc:"What others did while the caller did not have control, at most the last 50 deeds; once, in the first observation after the end of their control. Positions are in the picture"`
}

type observedControl struct {
	Holder *actorBody `json:"holder" doc:"Null if no actor is in control"`
	Taken  bool       `json:"taken"`
	Since  *time.Time `json:"since,omitempty"`
}

type pictureBody struct {
	MediaType string `json:"mediaType" example:"image/png"`
	Data      []byte `json:"data" doc:"Encoded picture, in base64"`
	Region    *box   `json:"region" doc:"Part of the picture that the data shows; null for all of it"`
}

type outlineBody struct {
	Outline   string `json:"outline"`
	Truncated bool   `json:"truncated"`
}

// answerOf returns a result as the answer has it. It encodes the errors of actions.
func answerOf(r *batch.Result, a *Area) actionsAnswer {
	out := actionsAnswer{Results: make([]actionResult, 0, len(r.Results)), Done: r.Done(), Observation: observationOf(&r.Observation), Clipboard: r.Clipboard}
	for _, d := range r.Results {
		out.Results = append(out.Results, actionResultOf(d, a))
	}
	if s := r.Stopped; s != nil {
		out.Stopped = &stoppedBody{string(s.Reason), s.Index, s.Detail}
	}
	if pic := r.Screenshot; pic != nil {
		out.Observation.Changed = boxesOf(pic.Observation, pic.Changed)
		if !pic.Unchanged {
			out.Screenshot = &pictureBody{MediaType: "image/" + string(pic.Format), Data: pic.Data}
			if pic.Part != nil {
				part := boxOf(*pic.Part)
				out.Screenshot.Region = &part
			}
		}
	}
	if r.Windows != nil {
		out.Windows = windowInfos(r.Windows)
	}
	if e := r.Elements; e != nil {
		out.Elements = &outlineBody{e.Text, e.Truncated}
	}
	return out
}

func actionResultOf(d batch.Done, a *Area) actionResult {
	out := actionResult{Type: d.Type, OK: d.Err == nil, Window: windowID(d.Window), Via: d.Via, Value: d.Value, MS: d.Took.Milliseconds()}
	if d.At != nil {
		out.X, out.Y = &d.At.X, &d.At.Y
	}
	if d.App != nil {
		app, _ := launchedOf(*d.App, nil)
		out.App = &app.Body
	}
	if d.Settled != nil {
		out.Settled = d.Settled
	}
	if d.Err != nil {
		p := a.ProblemOf(d.Err, inputFailed)
		out.Error = &actionFailure{rest.TypePrefix + p.Code, p.Detail}
	}
	return out
}

func observationOf(o *batch.Observation) observationBody {
	out := observationBody{
		ID: o.ID, Width: o.Size.Width, Height: o.Size.Height, Scale: o.Scale, Settled: o.Settled, SettleMS: o.SettleTime.Milliseconds(),
		Changed: []box{}, Animating: boxesOf(o.Observation, o.Animating), WindowsOpened: windowInfos(o.WindowsOpened), WindowsClosed: windowInfos(o.WindowsClosed),
	}
	if o.Focused != nil {
		w := infoOf(*o.Focused)
		out.Focused = &w
	}
	if c := controlOf(o.Control); c.Holder != nil {
		out.Control = observedControl(c)
	}
	return out
}

// boxesOf returns rectangles of the screen in the picture of an observation.
func boxesOf(o desktop.Observation, rects []desktop.Rect) []box {
	boxes := make([]box, 0, len(rects))
	for _, r := range rects {
		boxes = append(boxes, boxOf(o.RectFromScreen(r)))
	}
	return boxes
}

func boxOf(r desktop.Rect) box { return box{r.X, r.Y, r.Width, r.Height} }
