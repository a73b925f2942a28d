package agents

import "context"

// makeIn makes a session in a process, and chooses what the options name. Until
// that is in the log nobody else uses it; when it fails the process lets go of it.
func (h *Host) makeIn(ctx context.Context, l *life, c *call, o SessionOptions) (err error) {
	defer func() {
		if err == nil {
			return
		}
		c.givenUp.Store(true)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedWait)
		defer cancel()
		l.abandon(wait, c.want)
	}()
	raw, err := l.send(ctx, c)
	if err != nil {
		return err
	}
	l.observe("session/new", raw)
	if _, err := createdBy("session/new", raw); err != nil {
		return err
	}
	if err := h.chooseAll(ctx, l, c.want, o); err != nil {
		return err
	}
	return l.edit(ctx, c.want, note{}, func(t *talk) error {
		t.making, t.data.Maker = false, ""
		t.saveData()
		return nil
	})
}
