package browser

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// visibleLimit is how long a page may take to answer whether it is visible. On a busy machine, hidden
// pages take long.
const visibleLimit = 5 * time.Second

// What a tab says about itself, or what is known of it.
const (
	tabHidden   = iota
	tabEmulates // a client has it say that it has the focus
	tabVisible
	tabFocused
	tabSilent // it does not answer
)

// active returns the id of the tab that is visible. If windows show several, it is the one
// with the focus, or the one that was used last. It returns an error if tabs do not answer and any of
// them may be the one.
func (b *tabs) active(ctx context.Context) (string, error) {
	type candidate struct {
		id, session string
		used        uint64
		emulates    bool
		state       int
	}
	var all []candidate
	b.mu.Lock()
	for _, t := range b.all {
		all = append(all, candidate{t.id, t.session, t.used, b.emulatesFocus(t.id), tabSilent})
	}
	b.mu.Unlock()
	switch len(all) {
	case 0:
		return "", fmt.Errorf("%w: none is open", ErrNoTab)
	case 1:
		return all[0].id, nil
	}
	ctx, cancel := context.WithTimeout(ctx, visibleLimit)
	defer cancel()
	var asked sync.WaitGroup
	for i := range all {
		asked.Go(func() {
			t, shows := &all[i], 0
			ask := func() error { return b.runScript(ctx, frame{id: t.id, session: t.session}, "shows", &shows) }
			err := ask()
			for err != nil && ctx.Err() == nil && b.lives(t.id) { // it loads another page
				_ = pause(ctx, 20*time.Millisecond)
				err = ask()
			}
			switch {
			case err != nil:
			case t.emulates:
				t.state = tabEmulates
			case shows > 1:
				t.state = tabFocused
				cancel() // no other matters
			default:
				t.state = tabHidden
				if shows > 0 {
					t.state = tabVisible
				}
			}
		})
	}
	asked.Wait()
	all = slices.DeleteFunc(all, func(c candidate) bool { return !b.lives(c.id) })
	silent := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.state != tabSilent })
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.state == tabSilent })
	best := candidate{}
	if len(all) > 0 {
		best = slices.MaxFunc(all, func(x, y candidate) int { return cmp.Or(x.state-y.state, cmp.Compare(x.used, y.used)) })
	}
	switch {
	case len(silent) == 0, best.state == tabFocused:
		return best.id, nil
	case len(silent) == 1 && best.state == tabHidden:
		return silent[0].id, nil
	}
	return "", fmt.Errorf("%w that is known to be shown: %d do not answer; name the tab", ErrNoTab, len(silent))
}

// lives reports whether a tab is still open.
func (b *tabs) lives(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(id) != nil
}
