package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// cold measures the connecting of a browser that was just started to a server
// that has shown nothing for a while. A terminal full of text is on the screen.
func cold(ctx context.Context, b *bed, o options, r *result) error {
	return b.withText(func() error {
		var all []steps
		for range o.connects {
			b.browser.close()
			v, err := b.viewer(ctx)
			if err != nil {
				return err
			}
			if err := pause(ctx, o.linger); err != nil {
				return err
			}
			s, err := v.connect(ctx, 0)
			if err != nil {
				return err
			}
			all = append(all, s)
			if err := v.disconnect(ctx); err != nil {
				return err
			}
		}
		r.connected("connect to first frame, cold", all, noGoal)
		return nil
	})
}

// Times of who loads the page again.
const (
	watchTime  = time.Second            // between the first picture and the reload
	reloadTime = 300 * time.Millisecond // between that and the connecting
)

// warm measures a page that is loaded again, and nobody else watches.
func warm(ctx context.Context, b *bed, o options, r *result) error {
	return b.withText(func() error {
		v, err := b.watch(ctx, o, 0)
		if err != nil {
			return err
		}
		var all []steps
		for range o.connects {
			if v, err = b.viewer(ctx); err != nil {
				return err
			}
			if err := pause(ctx, reloadTime); err != nil {
				return err
			}
			s, err := v.connect(ctx, 0)
			if err != nil {
				return err
			}
			all = append(all, s)
			if err := pause(ctx, watchTime); err != nil {
				return err
			}
		}
		r.connected("connect to first frame, warm", all, atMost(300))
		return v.disconnect(ctx)
	})
}

// withText calls f while a terminal full of text is on the screen.
func (b *bed) withText(f func() error) error {
	s := new(scrolling)
	if err := s.open(b.x); err != nil {
		return err
	}
	return errors.Join(f(), s.close())
}

// connected adds the median, and notes those of the steps.
func (r *result) connected(what string, all []steps, g goal) {
	sorted := func(step string) (times []float64) {
		for _, s := range all {
			if at, ok := s[step]; ok {
				times = append(times, at)
			}
		}
		slices.Sort(times)
		return times
	}
	const last = "picture"
	times := sorted(last)
	r.add(what+", median", quantile(times, 0.5), "ms", g)
	r.add(fmt.Sprintf("the same: longest of %d", len(times)), quantile(times, 1), "ms", noGoal)
	for _, step := range slices.Sorted(maps.Keys(all[0])) {
		t := sorted(step)
		r.note("%s: %.0f, at most %.0f", step, quantile(t, 0.5), quantile(t, 1))
	}
}
