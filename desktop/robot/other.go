//go:build robotgo

package robot

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-vgo/robotgo"

	"github.com/deskhand/deskhand/desktop"
)

const textType = "text/plain;charset=utf-8"

// Clipboard reads text from the clipboard.
func (d *Desktop) Clipboard(ctx context.Context, sel desktop.Selection, contentType string) (c desktop.Content, err error) {
	if sel == desktop.Primary {
		return c, unsupported("clipboard: the selection primary")
	}
	if contentType != "" && !strings.HasPrefix(contentType, "text/plain") {
		return c, unsupported("clipboard: the type " + contentType)
	}
	return c, d.runLocked(ctx, func() error {
		text, err := robotgo.ReadAll()
		if err != nil {
			return fmt.Errorf("clipboard: %w: %w", desktop.ErrNoClipboardContent, err)
		}
		c = desktop.Content{Type: textType, Data: []byte(text)}
		return nil
	})
}

// SetClipboard puts text on the clipboard.
func (d *Desktop) SetClipboard(ctx context.Context, c desktop.Content, selections ...desktop.Selection) error {
	for _, sel := range selections {
		if sel != desktop.Clipboard {
			return unsupported("clipboard: the selection " + string(sel))
		}
	}
	if c.Type != "" && !strings.HasPrefix(c.Type, "text/plain") {
		return unsupported("clipboard: the type " + c.Type)
	}
	if !utf8.Valid(c.Data) {
		return &desktop.InvalidError{Field: "Data", Reason: "must be valid UTF-8"}
	}
	return d.act(ctx, desktop.Action{Name: desktop.ActionSetClipboard, Length: utf8.RuneCount(c.Data)}, func(*desktop.Action) error {
		if err := robotgo.WriteAll(string(c.Data)); err != nil {
			return fmt.Errorf("clipboard: %w", err)
		}
		return nil
	})
}

// Windows is not supported: see the package comment.
func (d *Desktop) Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error) {
	return nil, unsupported("list windows")
}

// FocusedWindow is not supported.
func (d *Desktop) FocusedWindow(context.Context) (desktop.Window, error) {
	return desktop.Window{}, unsupported("focused window")
}

// FocusWindow is not supported.
func (d *Desktop) FocusWindow(context.Context, desktop.WindowID) (desktop.Window, error) {
	return desktop.Window{}, unsupported("focus window")
}

// Resize is not supported.
func (d *Desktop) Resize(context.Context, desktop.Size) error { return unsupported("resize") }

// MoveWindow is not supported.
func (d *Desktop) MoveWindow(context.Context, desktop.WindowID, desktop.Point) (desktop.Window, error) {
	return desktop.Window{}, unsupported("move window")
}

// ResizeWindow is not supported.
func (d *Desktop) ResizeWindow(context.Context, desktop.WindowID, desktop.Size) (desktop.Window, error) {
	return desktop.Window{}, unsupported("resize window")
}

// CloseWindow is not supported.
func (d *Desktop) CloseWindow(context.Context, desktop.WindowID) error {
	return unsupported("close window")
}

// MinimiseWindow is not supported.
func (d *Desktop) MinimiseWindow(context.Context, desktop.WindowID) (desktop.Window, error) {
	return desktop.Window{}, unsupported("minimise window")
}

// MaximiseWindow is not supported.
func (d *Desktop) MaximiseWindow(context.Context, desktop.WindowID, bool) (desktop.Window, error) {
	return desktop.Window{}, unsupported("maximise window")
}

// Launch is not supported.
func (d *Desktop) Launch(context.Context, desktop.Launch) (desktop.App, error) {
	return desktop.App{}, unsupported("launch")
}

// Open is not supported.
func (d *Desktop) Open(context.Context, string) (desktop.App, error) {
	return desktop.App{}, unsupported("open")
}
