package main

import (
	"fmt"
	"io"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// Goals of agents. A prompt may take so many times as long as with the
// reference, whose log is memory.
const (
	fullShare    = 3.0
	eventsGoal   = 10_000 // a second
	lagGoal      = 50 * time.Millisecond
	pageGoal     = 5 * time.Millisecond
	firstGoal    = 50 * time.Millisecond
	endGoal      = 500 * time.Millisecond
	historyGrown = 32 << 20 // bytes, from a tenth of the history to all of it
)

// agentFigures are what was measured of agents: of deskhand that syncs
// everything, of deskhand that does not, of the reference.
type agentFigures struct {
	alone   bool
	prompt  []sample
	echo    []sample
	rate    []float64    // messages a second
	lag     []lagFigures // of the first and the last
	history *historyFigures
}

type historyFigures struct {
	events      int
	rate        float64       // at which it was made
	stream      sample        // pages of the stream
	rest        sample        // pages of sandbox-agent 0.1's API
	first, all  time.Duration // the first page of rest, and the first of its end
	grown, read int64         // memory when it was made, and when it was read
}

// write prints the figures as a table in Markdown.
func (f *agentFigures) write(w io.Writer) {
	fmt.Fprintf(w, "\n| agents' sessions, mock agent | deskhand | reference | goal | |\n|---|---|---|---|---|\n")
	line := func(title, ours, theirs, goal string, met bool) {
		verdict := ""
		if goal != "" {
			verdict = benchkit.Verdict(met)
		}
		if f.alone {
			theirs = ""
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", title, ours, theirs, goal, verdict)
	}
	if f.prompt != nil {
		f.writePrompts(line)
	}
	if f.rate != nil {
		rate := func(k int) string { return fmt.Sprintf("%.0f/s", f.rate[k]) }
		title := fmt.Sprintf("%d agents at once, messages", speakers)
		line(title, rate(0), rate(2), fmt.Sprintf("%d/s", eventsGoal), f.rate[0] >= eventsGoal)
		line(title+", database-sync normal", rate(1), rate(2), "", true)
	}
	if f.lag != nil {
		tell := func(l lagFigures) string {
			text := "nobody complete"
			if len(l.times) > 0 {
				text = fmt.Sprintf("%s (median %s)", benchkit.Milliseconds(l.times.quantile(0.99)), benchkit.Milliseconds(l.times.quantile(0.5)))
			}
			if l.missed > 0 {
				text += fmt.Sprintf("; %v", l.missed)
			}
			if !l.stalled {
				text += "; the stalled one misses something"
			}
			return text
		}
		met := len(f.lag[0].times) > 0 && f.lag[0].times.quantile(0.99) < lagGoal && f.lag[0].missed == 0 && f.lag[0].stalled
		line(fmt.Sprintf("%d readers, one stalled: prompt to echo, p99", audience), tell(f.lag[0]), tell(f.lag[1]),
			"below "+benchkit.Milliseconds(lagGoal)+", nothing missing", met)
	}
	if f.history != nil {
		f.history.write(line)
	}
}

func (f *agentFigures) writePrompts(line func(title, ours, theirs, goal string, met bool)) {
	tell := func(s sample) string {
		return fmt.Sprintf("%s (%s)", benchkit.Milliseconds(s.quantile(0.5)), benchkit.Milliseconds(s.quantile(0.9)))
	}
	for _, row := range []struct {
		title string
		of    []sample
		k     int
		share float64
	}{
		{"prompt and answer, median (p90)", f.prompt, 0, fullShare},
		{"the same, database-sync normal", f.prompt, 1, 0},
		{"a message that is echoed", f.echo, 0, 0},
		{"the same, database-sync normal", f.echo, 1, 0},
	} {
		if f.alone {
			line(row.title, tell(row.of[row.k]), "", "", true)
			continue
		}
		ratio := float64(row.of[row.k].quantile(0.5)) / float64(row.of[2].quantile(0.5))
		goal := ""
		if row.share > 0 {
			goal = fmt.Sprintf("at most %gx", row.share)
		}
		line(row.title, fmt.Sprintf("%s, %sx", tell(row.of[row.k]), benchkit.Significant(ratio)), tell(row.of[2]), goal, ratio <= row.share)
	}
}

func (h *historyFigures) write(line func(title, ours, theirs, goal string, met bool)) {
	const none = "keeps 1024"
	of := fmt.Sprintf("history of %d events: ", h.events)
	page := func(title string, s sample) {
		line(of+title, fmt.Sprintf("%s (%s)", benchkit.Milliseconds(s.quantile(0.5)), benchkit.Milliseconds(s.quantile(0.9))), none,
			"below "+benchkit.Milliseconds(pageGoal), s.quantile(0.5) < pageGoal)
	}
	page(fmt.Sprintf("%d of the stream, median (p90)", historyPage), h.stream)
	page(fmt.Sprintf("page of %d in /v1/sessions", historyPage), h.rest)
	line(of+"the first such page", benchkit.Milliseconds(h.first), none, "below "+benchkit.Milliseconds(firstGoal), h.first < firstGoal)
	line(of+"the first such page at its end", benchkit.Milliseconds(h.all), none, "below "+benchkit.Milliseconds(endGoal), h.all < endGoal)
	memory := fmt.Sprintf("%+.1f MiB, and %+.1f when it was read", float64(h.grown)/(1<<20), float64(h.read)/(1<<20))
	line(of+"memory, from a tenth of it to all", memory, none, fmt.Sprintf("below +%d MiB", historyGrown>>20), h.grown < historyGrown)
	line(of+"messages of one agent while it was made", fmt.Sprintf("%.0f/s", h.rate), "", "", true)
}
