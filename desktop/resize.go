package desktop

import (
	"context"
	"fmt"
)

// Resize changes the size of the screen, up to Config.MaxSize. The window manager keeps
// windows on it.
func (d *Desktop) Resize(ctx context.Context, size Size) error {
	if d.attached != "" {
		return fmt.Errorf("resize: %w", ErrUnsupported) // the display belongs to a person at a monitor
	}
	if err := checkSize("Width", size, d.cfg.MaxSize); err != nil {
		return err
	}
	return d.act(ctx, "resize", windowLimit, &Action{Name: ActionResize, Size: &size}, func(_ context.Context, s *session) error {
		if err := s.conn.SetSize(size.Width, size.Height); err != nil {
			return err
		}
		s.encoder.Trim() // its caches fit the old size
		return nil
	})
}
