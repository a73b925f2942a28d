package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	speakers    = 10     // agents that say much at once
	burstSize   = 2000   // messages of each
	historyPage = 100    // events of a page
	aTenth      = 10     // of the history, after which memory is looked at first
	burstMost   = 50_000 // messages of one prompt while a history is made
)

// prompts measures a prompt and its answer, and a message that is merely echoed,
// in each server in turn.
func (b *bench) prompts(ctx context.Context, beds *agentBeds) error {
	var talks []*talk
	for _, bed := range beds.all() {
		t, err := bed.talkTo(ctx, "prompt", "mock")
		if err != nil {
			return err
		}
		talks = append(talks, t)
	}
	var err error
	b.agents.prompt, err = b.inTurn(talks, func(t *talk) (time.Duration, error) { return t.prompt(ctx, "hello") })
	if err == nil {
		b.agents.echo, err = b.inTurn(talks, func(t *talk) (time.Duration, error) { return t.ask(ctx, "", "bench/echo", map[string]any{}) })
	}
	return err
}

// inTurn measures calls of each in turn.
func (b *bench) inTurn(talks []*talk, call func(*talk) (time.Duration, error)) ([]sample, error) {
	times := make([]sample, 3)
	for n := -warmUp; n < oftenTimes*b.calls; n++ {
		for k, t := range talks {
			took, err := call(t)
			if err != nil {
				return nil, err
			}
			if n >= 0 {
				times[k] = append(times[k], took)
			}
		}
	}
	for _, s := range times {
		slices.Sort(s)
	}
	return times, nil
}

// bursts measures how many messages a second several agents can say at once,
// until all of them are in the log and answered.
func (b *bench) bursts(ctx context.Context, beds *agentBeds) error {
	b.agents.rate = make([]float64, 3)
	all := make([][]*talk, len(beds.all()))
	for k, bed := range beds.all() {
		for n := range speakers {
			t, err := bed.own(ctx, fmt.Sprint("burst-", n))
			if err != nil {
				return err
			}
			all[k] = append(all[k], t)
		}
	}
	times := make([]sample, len(all))
	for range b.rounds {
		for k, talks := range all {
			var group errgroup.Group
			begin := time.Now()
			for _, t := range talks {
				group.Go(func() error {
					_, err := t.prompt(ctx, fmt.Sprint("burst ", burstSize))
					return err
				})
			}
			if err := group.Wait(); err != nil {
				return err
			}
			times[k] = append(times[k], time.Since(begin))
		}
	}
	for k, s := range times {
		slices.Sort(s)
		b.agents.rate[k] = speakers * burstSize / s.quantile(0.5).Seconds()
	}
	return nil
}

// history makes a long session and reads pages of it.
func (b *bench) history(ctx context.Context, beds *agentBeds) error {
	t, err := beds.full.own(ctx, "history")
	if err != nil {
		return err
	}
	f := &historyFigures{events: b.events}
	begin := time.Now()
	var before int64
	for said := 0; said < b.events; {
		n := min(burstMost, b.events/aTenth)
		if _, err := t.prompt(ctx, fmt.Sprint("burst ", n)); err != nil {
			return err
		}
		if said += n; before == 0 {
			if before, err = anonymousMemory(beds.full.server.PID); err != nil {
				return err
			}
		}
	}
	f.rate = float64(b.events) / time.Since(begin).Seconds()
	after, err := anonymousMemory(beds.full.server.PID)
	if err != nil {
		return err
	}
	f.grown = after - before
	for n := range b.calls {
		took, err := t.page(ctx, 1+n*(b.events-historyPage)/b.calls)
		if err != nil {
			return err
		}
		f.stream = append(f.stream, took)
	}
	if err := b.pages(ctx, t, f); err != nil {
		return err
	}
	after, err = anonymousMemory(beds.full.server.PID)
	f.read = after - before
	slices.Sort(f.stream)
	slices.Sort(f.rest)
	b.agents.history = f
	return err
}

// pages reads pages through the API of sandbox-agent 0.1, whose view of a
// session is made as far as somebody reads, or a little behind the agent when it
// is long: first the beginning, then the end.
func (b *bench) pages(ctx context.Context, t *talk, f *historyFigures) error {
	path := "/v1/sessions/" + url.PathEscape(t.id) + "/events?limit=" + fmt.Sprint(historyPage) + "&offset="
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	if f.first, err = t.bed.call(ctx, http.MethodGet, path+"0", nil); err != nil {
		return err
	}
	if f.all, err = t.bed.call(ctx, http.MethodGet, path+fmt.Sprint(b.events-historyPage), nil); err != nil {
		return err
	}
	for n := range b.calls {
		took, err := t.bed.call(ctx, http.MethodGet, path+fmt.Sprint(n*(b.events-historyPage)/b.calls), nil)
		if err != nil {
			return err
		}
		var page struct{ Events []json.RawMessage }
		if err := json.Unmarshal(t.bed.body.Bytes(), &page); err != nil {
			return err
		}
		if len(page.Events) != historyPage {
			return fmt.Errorf("a page of %d events, want %d", len(page.Events), historyPage)
		}
		f.rest = append(f.rest, took)
	}
	return nil
}

// page reads a page of what the agent said, and returns how long that took.
func (t *talk) page(ctx context.Context, from int) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	body, err := t.listen(ctx, fmt.Sprint("?from=", from))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	lines := bufio.NewReaderSize(body, 64<<10)
	for n := from; n < from+historyPage; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			if string(bytes.TrimSpace(id)) != fmt.Sprint(n) {
				return 0, fmt.Errorf("event %s, want %d", id, n)
			}
			n++
		}
	}
	return time.Since(begin), nil
}
