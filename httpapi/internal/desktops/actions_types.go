package desktops

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// actionKinds has all types of action.
var actionKinds = []actionKind{
	kindOf("move", grants.ScopeControl, func(b *moveBody) (batch.Action, error) {
		a, err := b.action()
		return batch.Move(a), err
	}),
	kindOf("click", grants.ScopeControl, (*clickAction).action),
	kindOf("down", grants.ScopeControl, func(b *buttonBody) (batch.Action, error) {
		a, err := b.action()
		return batch.ButtonDown(a), err
	}),
	kindOf("up", grants.ScopeControl, func(b *buttonBody) (batch.Action, error) {
		a, err := b.action()
		return batch.ButtonUp(a), err
	}),
	kindOf("drag", grants.ScopeControl, (*dragAction).action),
	kindOf("scroll", grants.ScopeControl, func(b *scrollBody) (batch.Action, error) {
		a, err := b.action()
		return batch.Scroll(a), err
	}),
	kindOf("type", grants.ScopeControl, func(b *typeBody) (batch.Action, error) {
		a, err := b.typing()
		return batch.Type(a), err
	}),
	kindOf("press", grants.ScopeControl, func(b *pressBody) (batch.Action, error) {
		a, err := b.press()
		return batch.Press(a), err
	}),
	kindOf("keyDown", grants.ScopeControl, func(b *keyBody) (batch.Action, error) {
		key, err := b.key()
		return batch.KeyDown{Key: key}, err
	}),
	kindOf("keyUp", grants.ScopeControl, func(b *keyBody) (batch.Action, error) {
		key, err := b.key()
		return batch.KeyUp{Key: key}, err
	}),
	kindOf("wait", grants.ScopeControl, (*waitAction).action),
	kindOf("launch", grants.ScopeAgent, func(b *launchBody) (batch.Action, error) {
		return batch.Launch(b.launch()), nil
	}),
	kindOf("open", grants.ScopeAgent, func(b *openBody) (batch.Action, error) { return batch.Open{Target: b.Target}, nil }),
	kindOf("chooseFile", grants.ScopeControl, func(b *chooseFileBody) (batch.Action, error) { return b.action(), nil }),
	kindOf("focus", grants.ScopeControl, (*focusAction).action),
	kindOf("clipboard", grants.ScopeControl, (*clipboardBody).action),
	kindOf("element", grants.ScopeControl, func(b *elementAction) (batch.Action, error) {
		return batch.Element{Ref: b.Ref, Do: b.Do, Value: b.Value}, nil
	}),
	kindOf("browser", grants.ScopeAgent, (*browserAction).action),
}

func kindOf[B any](name string, scope grants.Scope, action func(*B) (batch.Action, error)) actionKind {
	return actionKind{
		name: name, scope: scope,
		body: func(schemas huma.Registry) *huma.Schema { return huma.SchemaFromType(schemas, reflect.TypeFor[B]()) },
		decode: func(_ []byte, into func(any) error) (batch.Action, error) {
			b := new(B)
			if err := into(b); err != nil {
				return nil, err
			}
			return action(b)
		},
	}
}

// ClickBody is clickBody under a name that huma sees in clickAction.
type ClickBody clickBody

type clickAction struct {
	ClickBody
	Count *uint32 `json:"count,omitempty" doc:"The same as clickCount"`
}

func (b *clickAction) action() (batch.Action, error) {
	if b.ClickCount == nil {
		b.ClickCount = b.Count
	}
	a, err := (*clickBody)(&b.ClickBody).action()
	return batch.Click(a), err
}

type dragAction struct {
	Path        [][]pixel `json:"path" minItems:"2" nullable:"false" doc:"Points of the way, each [x, y]"`
	Button      *string   `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"Defaults to left"`
	Modifiers   []string  `json:"modifiers,omitempty" nullable:"false" doc:"Keys held down during the action: ctrl, shift, alt, super"`
	Observation *string   `json:"observation,omitempty" doc:"ID of the screenshot whose pixels the coordinates are in; defaults to the observation of the list"`
}

func (b *dragAction) action() (batch.Action, error) {
	a := batch.Drag{Button: buttonOf(b.Button), Modifiers: b.Modifiers, Observation: rest.Value(b.Observation)}
	for i, p := range b.Path {
		if len(p) != 2 {
			return nil, invalidArgument("path", fmt.Sprintf("path[%d] must be [x, y]", i))
		}
		a.Path = append(a.Path, pointOf(p[0], p[1]))
	}
	return a, nil
}

type waitAction struct {
	MS        uint32 `json:"ms,omitempty" maximum:"60000" doc:"Milliseconds to wait; or until"`
	Until     string `json:"until,omitempty" enum:"settled,window,element,gone" doc:"What to wait for: a screen that does not change, a window, an element, or the end of either"`
	Window    string `json:"window,omitempty" doc:"Text in the window's title, its class or its ID; with ~ before it, a regular expression for the title" example:"Save As"`
	Role      string `json:"role,omitempty" doc:"Role of the element" example:"button"`
	Name      string `json:"name,omitempty" doc:"Name of the element; with ~ before it, a regular expression"`
	TimeoutMS uint32 `json:"timeoutMs,omitempty" maximum:"300000" doc:"Maximum wait for until; defaults to 10000"`
}

func (b *waitAction) action() (batch.Action, error) {
	return batch.Wait{
		For: time.Duration(b.MS) * time.Millisecond, Until: batch.Until(b.Until), Window: b.Window, Role: b.Role, Name: b.Name,
		Timeout: time.Duration(b.TimeoutMS) * time.Millisecond,
	}, nil
}

type chooseFileBody struct {
	Path      string `json:"path" doc:"Absolute path of the file" example:"/home/user/report.txt"`
	TimeoutMS uint32 `json:"timeoutMs,omitempty" maximum:"300000" doc:"Maximum wait for the dialog to open, and again to close; defaults to 10000"`
}

func (b *chooseFileBody) action() batch.ChooseFile {
	return batch.ChooseFile{Path: b.Path, Timeout: time.Duration(b.TimeoutMS) * time.Millisecond}
}

type focusAction struct {
	Window string `json:"window" doc:"ID of the window" example:"8388621"`
}

func (b *focusAction) action() (batch.Action, error) {
	id, err := windowNumber(b.Window)
	return batch.Focus{Window: id}, err
}

func (b *clipboardBody) action() (batch.Action, error) {
	a := batch.SetClipboard{Content: desktop.Content{Type: desktop.TypeText, Data: []byte(b.Text)}}
	switch selection := rest.Value(b.Selection); selection {
	case "":
	case "both":
		a.To = []desktop.Selection{desktop.Clipboard, desktop.Primary}
	default:
		a.To = []desktop.Selection{desktop.Selection(selection)}
	}
	return a, nil
}

type elementAction struct {
	Ref   string `json:"ref" doc:"Reference of the element in an outline" example:"@e12"`
	Do    string `json:"do" enum:"click,focus,setText,setValue,select,expand,collapse,scrollIntoView,menu" doc:"What to do with the element"`
	Value string `json:"value,omitempty" doc:"Text or value to set"`
}

type browserAction struct {
	Do   string         `json:"do" doc:"What the browser does: the name of a browser route, such as navigate" example:"navigate"`
	Args map[string]any `json:"args,omitempty" doc:"Body of that route"`
}

func (b *browserAction) action() (batch.Action, error) {
	a := batch.Browse{Do: b.Do}
	var err error
	if b.Args != nil {
		a.Args, err = json.Marshal(b.Args)
	}
	return a, err
}
