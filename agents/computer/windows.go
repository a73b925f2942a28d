package computer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// windows lists windows, or changes one.
func (s *seat) windows(ctx context.Context, in *input) (outcome, error) {
	// In a call of the tool computer, Action is "windows".
	operation := in.Kind
	if operation == "" && in.Action != "windows" {
		operation = in.Action
	}
	if operation == "" || operation == "list" {
		return s.listWindows(ctx)
	}
	id, err := in.window()
	if err != nil {
		return outcome{}, err
	}
	var w desktop.Window
	switch operation {
	case "focus":
		w, err = s.desk.FocusWindow(ctx, id)
	case "close":
		if err := s.desk.CloseWindow(ctx, id); err != nil {
			return outcome{}, err
		}
		return outcome{text: fmt.Sprintf("Window %d was asked to close.", id), acted: true}, nil
	case "minimise", "minimize":
		w, err = s.desk.MinimiseWindow(ctx, id)
	case "maximise", "maximize":
		w, err = s.desk.MaximiseWindow(ctx, id, true)
	case "restore":
		w, err = s.desk.MaximiseWindow(ctx, id, false)
	case "move":
		w, err = s.moveWindow(ctx, id, in)
	case "resize":
		w, err = s.resizeWindow(ctx, id, in)
	default:
		return outcome{}, badf("action: must be list, focus, close, move, resize, maximise, restore or minimise, and is %.80q", operation)
	}
	if err != nil {
		return outcome{}, err
	}
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	return outcome{text: line(w, of) + ".", acted: true}, nil
}

func (s *seat) listWindows(ctx context.Context) (outcome, error) {
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	list, err := s.desk.Windows(ctx, desktop.WindowFilter{})
	if err != nil {
		return outcome{}, err
	}
	if len(list) == 0 {
		return outcome{text: "There are no windows. launch starts a program."}, nil
	}
	var b strings.Builder
	for _, w := range list {
		b.WriteString(line(w, of) + "\n")
	}
	return outcome{text: strings.TrimSuffix(b.String(), "\n")}, nil
}

// line describes a window, in coordinates of the picture.
func line(w desktop.Window, of desktop.Observation) string {
	from := of.FromScreen(desktop.Point{X: w.Bounds.X, Y: w.Bounds.Y})
	to := of.FromScreen(desktop.Point{X: w.Bounds.X + w.Bounds.Width - 1, Y: w.Bounds.Y + w.Bounds.Height - 1})
	parts := []string{fmt.Sprintf("window %d: %q (%s) from [%d, %d] to [%d, %d]", w.ID, w.Title, w.Class, from.X, from.Y, to.X, to.Y)}
	for _, state := range []struct {
		is   bool
		name string
	}{{w.Active, "focused"}, {w.Minimised, "minimised"}, {w.Maximised, "maximised"}, {w.Dialog, "dialog"}} {
		if state.is {
			parts = append(parts, state.name)
		}
	}
	return strings.Join(parts, ", ")
}

// window returns the window's id, which may be a number or text.
func (in *input) window() (desktop.WindowID, error) {
	text := strings.Trim(string(in.Window), `"`)
	if text == "" || text == "null" {
		return 0, badf("window: is missing; give the number from the list of windows")
	}
	id, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		return 0, badf("window: must be a number from the list of windows, and is %.40s", text)
	}
	return desktop.WindowID(id), nil
}

func (s *seat) moveWindow(ctx context.Context, id desktop.WindowID, in *input) (desktop.Window, error) {
	p, err := in.position()
	switch {
	case err != nil:
		return desktop.Window{}, err
	case p == nil:
		return desktop.Window{}, badf("coordinate: is missing; give the window's new top left corner as [x, y]")
	}
	of, err := s.view(ctx)
	if err != nil {
		return desktop.Window{}, err
	}
	at, err := locate("coordinate", *p, of)
	if err != nil {
		return desktop.Window{}, err
	}
	return s.desk.MoveWindow(ctx, id, desktop.Point{
		X: of.Region.X + at.X*of.Region.Width/of.Size.Width, Y: of.Region.Y + at.Y*of.Region.Height/of.Size.Height,
	})
}

func (s *seat) resizeWindow(ctx context.Context, id desktop.WindowID, in *input) (desktop.Window, error) {
	if in.Width == nil || in.Height == nil {
		return desktop.Window{}, badf("width and height: must both be given, in pixels of the screenshot")
	}
	of, err := s.view(ctx)
	if err != nil {
		return desktop.Window{}, err
	}
	w, h, err := pair{*in.Width, *in.Height}.pixels("width and height")
	if err != nil {
		return desktop.Window{}, err
	}
	return s.desk.ResizeWindow(ctx, id, desktop.Size{Width: w * of.Region.Width / of.Size.Width, Height: h * of.Region.Height / of.Size.Height})
}

// Limits of what clipboard_get returns.
const (
	maxText    = 1 << 20
	maxPicture = 4 << 20
)

func (s *seat) clipboardGet(ctx context.Context, in *input) (outcome, error) {
	kind, contentType, limit := "text", desktop.TypeText, maxText
	switch in.Kind {
	case "", "text":
	case "image":
		kind, contentType, limit = "picture", desktop.TypePNG, maxPicture
	default:
		return outcome{}, badf("kind: must be text or image, and is %.80q", in.Kind)
	}
	c, err := s.desk.Clipboard(ctx, desktop.Clipboard, contentType)
	switch {
	case err != nil:
		return outcome{}, err
	case len(c.Data) > limit:
		return outcome{}, badf("the %s on the clipboard has %d bytes, more than the %d that are passed on; paste it into a program and take a screenshot", kind, len(c.Data), limit)
	case kind == "text":
		return outcome{text: string(c.Data)}, nil
	}
	return outcome{text: "This picture is on the clipboard.", content: &mcp.ImageContent{Data: c.Data, MIMEType: "image/png"}}, nil
}

func (s *seat) clipboardSet(ctx context.Context, in *input) (outcome, error) {
	if in.Text == nil {
		return outcome{}, badf("text: is missing; give the text for the clipboard")
	}
	if err := s.desk.SetClipboard(ctx, desktop.Content{Type: desktop.TypeText, Data: []byte(*in.Text)}); err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("%d characters are on the clipboard. The key ctrl+v pastes them in most programs.", len([]rune(*in.Text)))}, nil
}

func (s *seat) launch(ctx context.Context, in *input) (outcome, error) {
	if in.App == "" {
		return outcome{}, badf("app: is missing; name a program")
	}
	l := desktop.Launch{App: in.App, Args: in.Args, Dir: in.Cwd, Wait: in.Wait == nil || *in.Wait, Ready: in.Ready != nil && *in.Ready}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		l.Env = append(l.Env, name+"="+in.Env[name])
	}
	app, err := s.desk.Launch(ctx, l)
	if err != nil && app.PID == 0 {
		return outcome{}, err
	}
	return launched(in.App, app, err), nil
}

func (s *seat) open(ctx context.Context, in *input) (outcome, error) {
	if in.Target == "" {
		return outcome{}, badf("target: is missing; give a URL or the path of a file")
	}
	app, err := s.desk.Open(ctx, in.Target)
	if err != nil {
		return outcome{}, err
	}
	return launched(in.Target, app, nil), nil
}

// chooseFile chooses a file in the dialog that has the focus.
func (s *seat) chooseFile(ctx context.Context, in *input) (outcome, error) {
	if in.Target == "" {
		return outcome{}, badf("target: is missing; give the absolute path of the file")
	}
	if _, err := batch.Act(ctx, batch.Target{Desktop: s.desk}, batch.ChooseFile{Path: in.Target}); err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("%s was chosen, and the dialog has closed.", in.Target), acted: true}, nil
}

func launched(what string, app desktop.App, err error) outcome {
	text := fmt.Sprintf("%s was started (process %d).", what, app.PID)
	switch {
	case errors.Is(err, desktop.ErrTimeout):
		text += " It has shown no window yet."
	case err != nil:
		text += " Whether it shows a window is not known: " + explain(err)
	case app.Exited:
		text = fmt.Sprintf("%s was started and ended with status %d before it showed a window.", what, app.ExitCode)
	case app.Window != 0:
		text += fmt.Sprintf(" Its window is %d.", app.Window)
	}
	return outcome{text: text, acted: true}
}

// maxError bounds the text of an error, in bytes. It can repeat what the model has sent.
const maxError = 4 << 10

// explain returns an error's text for the model, with what to do.
func explain(err error) string {
	var held *desktop.ControlHeldError
	var invalid *desktop.InvalidError
	remedy := ""
	switch {
	case errors.As(err, &held):
		return fmt.Sprintf("control_held: %s has control of this desktop since %s, so the action was refused. Screenshots still work. "+
			"Try again with waitControlMs, which waits for the end of control, or ask the user to release it.",
			held.Holder, held.Since.UTC().Format(time.RFC3339))
	case errors.Is(err, desktop.ErrSecretNotFound):
		remedy = "Ask the user for the name of the secret."
	case errors.As(err, &invalid) && invalid.Field == "Observation":
		remedy = "Take a screenshot, and use its coordinates."
	case errors.Is(err, desktop.ErrStale):
		remedy = "Nothing was done. Use the coordinates of the new screenshot, or pass expect: any."
	case errors.Is(err, desktop.ErrRestarting):
		remedy = "Wait a few seconds, then take a screenshot."
	case errors.Is(err, desktop.ErrClosed):
		remedy = "The desktop must be started first; tell the user."
	case errors.Is(err, desktop.ErrWindowNotFound):
		remedy = "List the windows: it may have closed."
	case errors.Is(err, desktop.ErrAppNotFound):
		remedy = "Give the name or path of an installed program."
	case errors.Is(err, desktop.ErrNoClipboardContent):
		remedy = "Copy something first, or ask for the other kind."
	case errors.Is(err, desktop.ErrTimeout):
		remedy = "Take a screenshot to see how far it came."
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		remedy = "The call was canceled; take a screenshot to see its effect."
	}
	text := cuttext.Cut(err.Error(), maxError)
	if invalid != nil { // parameters of tools begin in lower case
		text = strings.Replace(text, invalid.Field, strings.ToLower(invalid.Field[:1])+invalid.Field[1:], 1)
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	if remedy != "" {
		text += " " + remedy
	}
	return text
}
