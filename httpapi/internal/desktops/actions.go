package desktops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type batchBody struct {
	Observation string       `json:"observation,omitempty" doc:"ID of the observation whose picture the coordinates are in; defaults to the screen"`
	Actions     []actionBody `json:"actions,omitempty" nullable:"false" doc:"Actions to execute in this order, at most 1000"`
	StopOn      []string     `json:"stopOn,omitempty" nullable:"false" enum:"failure,window,focus,control" doc:"What ends the list early: a failed action, a window that opened or closed, another window with the focus, loss of control. Defaults to failure and control. Loss of control always does"`
	Expect      string       `json:"expect,omitempty" enum:"same,window,any" doc:"What must be as in the observation before the first action: the pixels around each position and its window (same, the default), its window, or nothing (any)"`
	Settle      *settleBody  `json:"settle,omitempty"`
	Observe     *observeBody `json:"observe,omitempty"`
	WaitControl *uint32      `json:"waitControlMs,omitempty" maximum:"600000" doc:"Milliseconds to wait for the end of another actor's control before the list is refused with control_held"`
}

type settleBody struct {
	MS        *uint32 `json:"ms,omitempty" maximum:"60000" doc:"How long the screen must not have changed before it is observed; defaults to 200; 0 does not wait"`
	TimeoutMS *uint32 `json:"timeoutMs,omitempty" maximum:"300000" doc:"Maximum wait for that; defaults to 2000"`
}

type observeBody struct {
	Screenshot *observedPicture  `json:"screenshot,omitempty" doc:"Picture to return; none by default"`
	Windows    bool              `json:"windows,omitempty" doc:"List all windows"`
	Elements   *observedElements `json:"elements,omitempty" doc:"Outline of the elements of the windows; none by default"`
	Clipboard  bool              `json:"clipboard,omitempty" doc:"Return the text on the clipboard"`
}

type observedPicture struct {
	Format      string  `json:"format,omitempty" enum:"png,jpeg,webp" doc:"Defaults to png; webp is lossless"`
	Quality     int     `json:"quality,omitempty" minimum:"1" maximum:"100" doc:"Quality of JPEG; defaults to 85"`
	Scale       float64 `json:"scale,omitempty" minimum:"0.1" maximum:"1" doc:"Defaults to 1"`
	CursorStyle string  `json:"cursorStyle,omitempty" enum:"none,crosshair,pointer" doc:"How the pointer is drawn; defaults to none"`
	MaxEdge     uint32  `json:"maxEdge,omitempty" doc:"Longest edge in pixels; a larger picture is scaled down"`
	MaxPixels   uint32  `json:"maxPixels,omitempty" doc:"Area in pixels; a larger picture is scaled down"`
	MaxBytes    uint32  `json:"maxBytes,omitempty" doc:"Size of the encoded picture; a larger one becomes JPEG, of falling quality and scale"`
	Since       string  `json:"since,omitempty" doc:"ID of the observation whose picture the client has: the answer has only what changed, if that is less than half of the picture, and no picture if nothing changed"`
}

type observedElements struct {
	Outline bool   `json:"outline,omitempty" doc:"Outline with a line for each element; always returned"`
	Window  string `json:"window,omitempty" doc:"ID of the window; defaults to all windows"`
	Limit   uint32 `json:"limit,omitempty" doc:"Maximum number of elements; defaults to 300"`
}

const aboutActions = "Executes the actions in one turn: no other caller's input comes between them, except during wait. " +
	"Then waits until the screen has settled and answers with what each action did and one observation. " +
	"All actions are checked before the first one is executed. " +
	"If the screen has changed where an action points, compared with the observation, the answer is a problem stale_observation with a new observation."

func registerActions(a *Area) {
	registerChooseFile(a)
	r := rest.Route{Tag: "Actions", Other: inputFailed, Errors: []int{http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusNotImplemented, http.StatusBadGateway}}
	act(a, r.Post("doActions", "/actions", "Execute a list of actions and observe the desktop").WithAbout(aboutActions),
		func(ctx context.Context, in *input[batchBody]) (*rest.Output[actionsAnswer], error) {
			b, bad := in.Body.batch(a.Huma.OpenAPI().Components.Schemas, rest.GrantOf(ctx))
			d, err := running[batch.Desktop](a, in.Desktop, bad)
			if err != nil {
				return nil, err
			}
			if in.Body.WaitControl != nil {
				ctx = desktop.WithControlWait(ctx, milliseconds(in.Body.WaitControl, 0))
			}
			r, err := batch.Do(ctx, batch.Target{Desktop: d, Elements: batchElements{a, in.Desktop}, Browser: batchBrowser{a, in.Desktop}}, b)
			if errors.Is(err, desktop.ErrControlHeld) {
				a.meanwhile(ctx, in.Desktop, d) // the actor's next answer has it
			}
			if err != nil {
				return nil, withResult(err, r, a)
			}
			answer := answerOf(r, a)
			answer.Observation.Meanwhile = activity.Map(a.meanwhile(ctx, in.Desktop, d), r.Observation.FromScreen)
			return rest.Reply(answer, nil)
		})
}

const aboutChooseFile = "Waits until a dialog has the focus, pastes the path into it, presses Return, and waits until the dialog closes. " +
	"Works in the dialogs of GTK, Qt and Swing. The problem file_dialog_failed says that no dialog has the focus, that it takes no path, " +
	"or that it stays open, for example because the program asks whether to replace the file."

func registerChooseFile(a *Area) {
	r := rest.Route{Tag: "Actions", Other: inputFailed, Errors: []int{http.StatusBadGateway}}
	act(a, r.Post("chooseFile", "/choose-file", "Choose a file in the open file dialog").WithAbout(aboutChooseFile),
		func(ctx context.Context, in *input[chooseFileBody]) (*rest.OKOutput, error) {
			d, err := running[batch.Desktop](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			_, err = batch.Act(ctx, batch.Target{Desktop: d}, in.Body.action())
			if bad, ok := errors.AsType[*batch.ActionError](err); ok {
				err = bad.Err // there is no list
			}
			return rest.OKOr(err)
		})
}

// batch decodes a batch, whose actions the token must allow.
func (b *batchBody) batch(schemas huma.Registry, token *grants.Grant) (out batch.Batch, err error) {
	out = batch.Batch{Observation: b.Observation, Expect: batch.Expect(b.Expect), Actions: make([]batch.Action, len(b.Actions))}
	if n := len(b.Actions); n > batch.MaxActions {
		return out, invalidArgument("actions", fmt.Sprintf("actions must be at most %d, and there are %d", batch.MaxActions, n))
	}
	for i, raw := range b.Actions {
		if out.Actions[i], err = raw.action(schemas, i, token); err != nil {
			return out, err
		}
	}
	for _, s := range b.StopOn {
		out.StopOn = append(out.StopOn, batch.Stop(s))
	}
	if s := b.Settle; s != nil {
		out.Settle = &batch.Settle{Quiet: milliseconds(s.MS, 200), Timeout: milliseconds(s.TimeoutMS, 2000)}
	}
	if b.Observe != nil {
		out.Observe, err = b.Observe.observe()
	}
	return out, err
}

func milliseconds(n *uint32, without uint32) time.Duration {
	if n == nil {
		n = &without
	}
	return time.Duration(*n) * time.Millisecond
}

func (b *observeBody) observe() (batch.Observe, error) {
	out := batch.Observe{Windows: b.Windows, Clipboard: b.Clipboard}
	if p := b.Screenshot; p != nil {
		out.Screenshot = &desktop.ScreenshotOptions{
			Format: desktop.Format(p.Format), Quality: p.Quality, Scale: p.Scale, Cursor: (&screenshotQuery{CursorStyle: p.CursorStyle}).cursor(),
			MaxEdge: int(p.MaxEdge), MaxPixels: int(p.MaxPixels), MaxBytes: int(p.MaxBytes), Since: p.Since,
		}
	}
	if e := b.Elements; e != nil {
		out.Elements = &batch.Outlines{Limit: int(e.Limit)}
		if e.Window != "" {
			id, err := windowNumber(e.Window)
			if err != nil {
				return out, err
			}
			out.Elements.Window = id
		}
	}
	return out, nil
}

// actionBody is one action, whose members depend on its type.
type actionBody struct{ json.RawMessage }

// Schema implements huma.SchemaProvider. Its validation leaves the members to the schema of
// the action's type, which gives better messages than oneOf does.
func (actionBody) Schema(schemas huma.Registry) *huma.Schema {
	var names, one []any
	mapping := map[string]string{}
	for _, k := range actionKinds {
		ref := k.register(schemas)
		names, one = append(names, k.name), append(one, map[string]string{"$ref": ref})
		mapping[k.name] = ref
	}
	return &huma.Schema{
		Type: huma.TypeObject, Description: "An action: its type, and the members that the route of that action takes",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: names}}, Required: []string{"type"}, AdditionalProperties: true,
		Extensions: map[string]any{"oneOf": one, "discriminator": map[string]any{"propertyName": "type", "mapping": mapping}},
	}
}

// action decodes the action at an index of its list.
func (b actionBody) action(schemas huma.Registry, index int, token *grants.Grant) (batch.Action, error) {
	var named struct{ Type string }
	if err := json.Unmarshal(b.RawMessage, &named); err != nil {
		return nil, err
	}
	for _, k := range actionKinds {
		if k.name != named.Type {
			continue
		}
		if token != nil && !token.Scope.Allows(k.scope) {
			return nil, rest.PermissionDenied.Problem(fmt.Sprintf("permission denied: actions[%d]: %s needs a token of scope %s", index, k.name, k.scope))
		}
		location := fmt.Sprintf("body.actions[%d]", index)
		action, err := k.decode(b.RawMessage, func(v any) error {
			return rest.DecodePart(schemas, schemas.SchemaFromRef(k.ref()), location, b.RawMessage, v)
		})
		if p, ok := errors.AsType[*rest.Problem](err); ok && p.Code == invalidAction.Code {
			err = atAction(index, p)
		}
		return action, err
	}
	return nil, atAction(index, invalidArgument("type", fmt.Sprintf("type %q is unknown", named.Type)))
}

// atAction makes a problem about an action's member one about the list.
func atAction(index int, p *rest.Problem) *rest.Problem {
	if p == nil {
		return nil
	}
	at := fmt.Sprintf("actions[%d]", index)
	field, ok := p.Extra["field"].(string)
	if !ok {
		p.Detail = at + ": " + p.Detail
		return p
	}
	if about, found := strings.CutPrefix(p.Detail, field+" "); found {
		p.Detail = at + "." + field + " " + about
	} else {
		p.Detail = at + "." + field + ": " + p.Detail
	}
	return p.With("field", at+"."+field)
}

// withResult returns the problem of a batch, with what the batch did and observed.
func withResult(err error, r *batch.Result, a *Area) error {
	var stale *desktop.StaleError
	var progress *batch.ProgressError
	switch p := Problem(err); {
	case p == nil:
		return err
	case errors.As(err, &stale):
		answer := answerOf(r, a)
		changed := make([]box, 0, len(stale.Changed))
		if o, err := desktop.ParseObservation(stale.Observation); err == nil {
			changed = boxesOf(o, stale.Changed)
		}
		return p.With("changed", changed).With("observation", answer.Observation).With("screenshot", answer.Screenshot)
	case errors.As(err, &progress):
		p.Detail = rest.Sentence(err)
		return p.With("done", progress.Done).With("results", answerOf(r, a).Results)
	default:
		return p
	}
}

// actionKind is a type of action.
type actionKind struct {
	name   string
	scope  grants.Scope // that a token needs
	body   func(huma.Registry) *huma.Schema
	decode func(raw []byte, into func(any) error) (batch.Action, error)
}

// ref returns the reference of the schema.
func (k actionKind) ref() string { return "#/components/schemas/" + k.schemaName() }

func (k actionKind) schemaName() string { return "Action" + string(k.name[0]-'a'+'A') + k.name[1:] }

// register adds the schema of the type to the document, and returns its reference.
func (k actionKind) register(schemas huma.Registry) string {
	if schemas.Map()[k.schemaName()] != nil {
		return k.ref()
	}
	s := *k.body(schemas)
	s.Properties = map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{k.name}}}
	maps.Copy(s.Properties, k.body(schemas).Properties)
	s.Required = append([]string{"type"}, s.Required...)
	s.PrecomputeMessages()
	schemas.Map()[k.schemaName()] = &s
	return k.ref()
}
