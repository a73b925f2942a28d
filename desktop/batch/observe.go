package batch

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// observe lets the screen settle and adds what the batch asks for to the result. before is
// the list of windows before the first action.
func (r *run) observe(ctx context.Context, before []desktop.Window) (err error) {
	o, settle := &r.result.Observation, defaultSettle
	if r.batch.Settle != nil {
		settle = *r.batch.Settle
	}
	settled, err := r.settle(ctx, settle.Quiet, settle.Timeout)
	if err != nil {
		return err
	}
	o.Settled, o.SettleTime, o.Animating = settled.Quiet, settled.Elapsed, settled.Animating
	if err := r.picture(ctx); err != nil {
		return err
	}
	after, err := r.windows(ctx)
	if err != nil {
		return err
	}
	o.Focused, o.WindowsOpened, o.WindowsClosed = focused(after), without(after, before), without(before, after)
	if d, ok := r.Desktop.(interface{ Control() desktop.Control }); ok {
		o.Control = d.Control()
	}
	if r.batch.Observe.Windows {
		r.result.Windows = after
	}
	return errors.Join(r.clipboard(ctx), r.elements(ctx))
}

// settler is a desktop that knows when the screen has settled.
type settler interface {
	Settle(ctx context.Context, quiet, timeout time.Duration) (desktop.Settled, error)
}

var _ interface {
	Desktop
	exclusive
	settler
} = (*desktop.Desktop)(nil)

// settle waits for a screen that does not change.
func (r *run) settle(ctx context.Context, quiet, timeout time.Duration) (desktop.Settled, error) {
	if quiet == 0 {
		return desktop.Settled{Quiet: true}, nil
	}
	d, ok := r.Desktop.(settler)
	if !ok {
		return desktop.Settled{Elapsed: quiet}, pause(ctx, quiet)
	}
	return d.Settle(ctx, quiet, timeout)
}

// picture takes the screenshot.
func (r *run) picture(ctx context.Context) error {
	o := desktop.ScreenshotOptions{ObservationOnly: true}
	if p := r.batch.Observe.Screenshot; p != nil {
		o = *p
		o.Settle, o.SettleTimeout = 0, 0
	}
	pic, err := r.Desktop.Screenshot(ctx, o)
	if err != nil {
		return err
	}
	r.result.Observation.Observation = pic.Observation
	if !o.ObservationOnly {
		r.result.Screenshot = pic
	}
	return nil
}

// maxClipboard is how many bytes of a clipboard's text a batch returns.
const maxClipboard = 1 << 20

func (r *run) clipboard(ctx context.Context) error {
	if !r.batch.Observe.Clipboard {
		return nil
	}
	c, err := r.Desktop.Clipboard(ctx, desktop.Clipboard, desktop.TypeText)
	text := strings.ToValidUTF8(string(c.Data[:min(len(c.Data), maxClipboard)]), "")
	r.result.Clipboard = &text
	if errors.Is(err, desktop.ErrNoClipboardContent) {
		return nil
	}
	return err
}

func (r *run) elements(ctx context.Context) error {
	o := r.batch.Observe.Elements
	if o == nil {
		return nil
	}
	shown := *o
	shown.Picture = &r.result.Observation.Observation
	outline, err := r.Elements.Outline(ctx, shown)
	r.result.Elements = &outline
	return err
}
