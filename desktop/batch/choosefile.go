package batch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/deskhand/deskhand/desktop"
)

// ChooseFile is an [Action] that chooses a file in the file dialog that has the focus, to open
// it or to save to it. It waits until the dialog opens, pastes the path into the field for
// names, presses Return, and waits until the dialog closes. It works in the dialogs of GTK, Qt
// and Swing if the field has the focus, as when they open. GTK's take the path anywhere.
//
// It fails with a *FileDialogError if no dialog has the focus within Timeout, if the dialog takes
// no path, or if it stays open for Timeout, for example because the program asks whether to
// replace a file.
type ChooseFile struct {
	Path    string        // absolute, at most 4096 bytes
	Timeout time.Duration // for the dialog to open, and again to close; at most five minutes; zero: 10 s
}

// FileDialogError says why a file was not chosen in a file dialog.
type FileDialogError struct {
	Dialog desktop.WindowID // zero: no dialog has the focus
	Reason string
}

func (e *FileDialogError) Error() string { return "choose a file: " + e.Reason }

// Type returns "chooseFile".
func (ChooseFile) Type() string { return "chooseFile" }

const (
	maxPath = 4096
	askTime = 250 * time.Millisecond // after which a window above the dialog is a question

	enterTime  = 2 * time.Second
	enterPause = 100 * time.Millisecond
)

// Validate implements [Action].
func (a ChooseFile) Validate() error {
	switch {
	case !filepath.IsAbs(a.Path):
		return &desktop.InvalidError{Field: "path", Reason: "must be absolute, such as /home/user/report.txt"}
	case len(a.Path) > maxPath:
		return &desktop.InvalidError{Field: "path", Reason: fmt.Sprintf("must have at most %d bytes", maxPath)}
	case strings.ContainsFunc(a.Path, unicode.IsControl):
		return &desktop.InvalidError{Field: "path", Reason: "must not contain control characters"}
	case a.Timeout < 0 || a.Timeout > maxUntil:
		return &desktop.InvalidError{Field: "timeoutMs", Reason: fmt.Sprintf("must be between 0 and %d", maxUntil.Milliseconds())}
	}
	return desktop.Type{Text: a.Path, Mode: desktop.TypePaste}.Validate()
}

func (a ChooseFile) do(ctx context.Context, r *run, done *Done) error {
	r.opens = true
	dialog, err := a.awaitDialog(ctx, r)
	if err != nil {
		return err
	}
	done.Window = dialog.ID
	if err := a.enter(ctx, r, dialog); err != nil {
		return err
	}
	before, err := r.windows(ctx)
	if err != nil {
		return err
	}
	if err := r.Desktop.Press(ctx, desktop.Press{Keys: "Return"}); err != nil {
		return err
	}
	return a.awaitClosed(ctx, r, dialog, before)
}

// poll calls look until it reports true, while other callers may send input. It returns
// otherwise if the timeout passes first.
func (a ChooseFile) poll(ctx context.Context, r *run, otherwise error, look func([]desktop.Window) (bool, error)) error {
	err := r.yield(ctx, func(ctx context.Context) error {
		return Wait{Timeout: a.Timeout}.until(ctx, func(ctx context.Context) (bool, error) {
			list, err := r.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
			if err != nil {
				return false, err
			}
			return look(list)
		})
	})
	if errors.Is(err, desktop.ErrTimeout) && ctx.Err() == nil {
		return otherwise
	}
	return err
}

// awaitDialog waits until a dialog has the focus.
func (a ChooseFile) awaitDialog(ctx context.Context, r *run) (dialog desktop.Window, err error) {
	none := &FileDialogError{0, "no dialog has the focus; open the file dialog first"}
	err = a.poll(ctx, r, none, func(list []desktop.Window) (bool, error) {
		w := focused(list)
		if w == nil || !w.Dialog {
			return false, nil
		}
		dialog = *w
		return true, nil
	})
	return dialog, err
}

// enter puts the path into the dialog's field, and reads it back. It tries again for enterTime: a
// dialog that has just opened may not take keys yet.
func (a ChooseFile) enter(ctx context.Context, r *run, dialog desktop.Window) (err error) {
	restore, err := r.keepClipboard(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	for begun := time.Now(); ; {
		if taken, err := a.tryEnter(ctx, r); taken || err != nil {
			return err
		}
		if time.Since(begun) > enterTime {
			return &FileDialogError{dialog.ID, fmt.Sprintf("the dialog %q did not take the path; click its field for names and try again", dialog.Title)}
		}
		if err := pause(ctx, enterPause); err != nil {
			return err
		}
	}
}

// tryEnter reports whether the field has the path afterwards.
func (a ChooseFile) tryEnter(ctx context.Context, r *run) (taken bool, err error) {
	got, err := a.paste(ctx, r)
	if err == nil && got != a.Path && strings.HasPrefix(got, a.Path) {
		got, err = a.paste(ctx, r, "Delete") // GTK completes a path, and selects what it adds
	}
	if errors.Is(err, desktop.ErrNotPasted) {
		return false, nil
	}
	return got == a.Path, err
}

// paste pastes the path, presses keys, and returns what the field has then.
func (a ChooseFile) paste(ctx context.Context, r *run, keys ...string) (string, error) {
	if err := r.press(ctx, "slash", "ctrl+a"); err != nil { // GTK shows its field for a slash
		return "", err
	}
	if err := r.Desktop.Type(ctx, desktop.Type{Text: a.Path, Mode: desktop.TypePaste}); err != nil {
		return "", err
	}
	if err := r.Desktop.SetClipboard(ctx, desktop.Content{Type: desktop.TypeText}); err != nil {
		return "", err
	}
	if err := r.press(ctx, append(keys, "ctrl+a", "ctrl+c")...); err != nil {
		return "", err
	}
	c, err := r.Desktop.Clipboard(ctx, desktop.Clipboard, desktop.TypeText)
	if errors.Is(err, desktop.ErrNoClipboardContent) {
		return "", nil
	}
	return string(c.Data), err
}

func (r *run) press(ctx context.Context, keys ...string) error {
	for _, k := range keys {
		if err := r.Desktop.Press(ctx, desktop.Press{Keys: k}); err != nil {
			return err
		}
	}
	return nil
}

// keepClipboard returns a function that puts back what is on the clipboard now.
func (r *run) keepClipboard(ctx context.Context) (restore func() error, err error) {
	var c desktop.Content
	for _, kind := range []string{desktop.TypeText, desktop.TypePNG} {
		if c, err = r.Desktop.Clipboard(ctx, desktop.Clipboard, kind); !errors.Is(err, desktop.ErrNoClipboardContent) {
			break
		}
		c, err = desktop.Content{Type: desktop.TypeText}, nil
	}
	return func() error { return r.Desktop.SetClipboard(context.WithoutCancel(ctx), c) }, err
}

// awaitClosed waits until the dialog has closed. before has the windows that were there
// before it was confirmed.
func (a ChooseFile) awaitClosed(ctx context.Context, r *run, dialog desktop.Window, before []desktop.Window) error {
	stays := &FileDialogError{dialog.ID, fmt.Sprintf("the dialog %q is still open after Return", dialog.Title)}
	var since time.Time
	return a.poll(ctx, r, stays, func(list []desktop.Window) (bool, error) {
		if !slices.ContainsFunc(list, func(w desktop.Window) bool { return w.ID == dialog.ID }) {
			return true, nil
		}
		above := focused(without(list, before))
		if above == nil {
			since = time.Time{}
			return false, nil
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < askTime {
			return false, nil
		}
		return false, &FileDialogError{dialog.ID, fmt.Sprintf("the dialog %q is still open, and window %d %q asks something; answer that first", dialog.Title, above.ID, above.Title)}
	})
}
