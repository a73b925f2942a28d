package httpapi

import (
	"context"

	"github.com/deskhand/deskhand/desktop"
)

// Desktop has the methods of a desktop that the API calls. *desktop.Desktop implements
// it.
type Desktop interface {
	Status() desktop.Status
	Close() error
	Screenshot(context.Context, desktop.ScreenshotOptions) (*desktop.Screenshot, error)
	Resize(context.Context, desktop.Size) error
	Subscribe(after uint64) *desktop.Subscription

	Pointer(context.Context) (desktop.Pointer, error)
	Move(context.Context, desktop.Move) (desktop.Pointer, error)
	Click(context.Context, desktop.Click) (desktop.Pointer, error)
	ButtonDown(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	ButtonUp(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	Drag(context.Context, desktop.Drag) (desktop.Pointer, error)
	Scroll(context.Context, desktop.Scroll) (desktop.Pointer, error)

	Type(context.Context, desktop.Type) error
	Press(context.Context, desktop.Press) error
	KeyDown(ctx context.Context, key string) error
	KeyUp(ctx context.Context, key string) error
	ReleaseAll(context.Context) error

	Clipboard(ctx context.Context, sel desktop.Selection, contentType string) (desktop.Content, error)
	SetClipboard(context.Context, desktop.Content, ...desktop.Selection) error

	Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error)
	FocusedWindow(context.Context) (desktop.Window, error)
	FocusWindow(context.Context, desktop.WindowID) (desktop.Window, error)
	MoveWindow(context.Context, desktop.WindowID, desktop.Point) (desktop.Window, error)
	ResizeWindow(context.Context, desktop.WindowID, desktop.Size) (desktop.Window, error)
	CloseWindow(context.Context, desktop.WindowID) error
	MinimiseWindow(context.Context, desktop.WindowID) (desktop.Window, error)
	MaximiseWindow(ctx context.Context, id desktop.WindowID, on bool) (desktop.Window, error)

	Launch(context.Context, desktop.Launch) (desktop.App, error)
	Open(ctx context.Context, target string) (desktop.App, error)
}

var _ Desktop = (*desktop.Desktop)(nil)
