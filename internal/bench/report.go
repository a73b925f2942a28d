package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// section is a table of the report.
type section int

const (
	desktopCalls section = iota
	hostCalls
	agentSessions
	idleServer
	recordings
	sections
)

// heads are the first cells of each table, without the four that follow.
var heads = [sections]string{
	desktopCalls:  fmt.Sprintf("call, %dx%d, three windows", screenWidth, screenHeight),
	hostCalls:     "call",
	agentSessions: "agents' sessions, mock agent",
	idleServer:    "the server's process, the desktop on and no client connected",
	recordings:    fmt.Sprintf("recording %dx%d, up to %d pictures a second, SSIM of %d moments", screenWidth, screenHeight, recordedRate, probes),
}

// line adds a line to a table whose cells are text. met is ignored without a goal.
func (b *bench) line(to section, title, ours, theirs, goal string, met bool) {
	if b.alone {
		theirs = ""
	}
	b.tables[to] = append(b.tables[to], []string{title, ours, theirs, goal, benchkit.Verdict(goal, met)})
}

// report prints the tables in Markdown.
func (b *bench) report(ctx context.Context, w io.Writer) error {
	var out bytes.Buffer
	if err := b.describe(ctx, &out); err != nil {
		return err
	}
	for s, rows := range b.tables {
		head := []string{heads[s], "deskhand", b.other(), "goal", ""}
		if section(s) <= agentSessions {
			head = []string{heads[s], "deskhand, median (p90)", b.other() + ", median (p90)", "times faster", "goal", ""}
		}
		if len(rows) > 0 {
			benchkit.Table(&out, head, rows)
		}
	}
	for _, bed := range b.beds {
		if bed.lost > 0 {
			fmt.Fprintf(&out, "\nOf the characters typed, %d did not arrive on %s's desktop.\n", bed.lost, bed.name)
		}
		if bed.repeated > 0 {
			fmt.Fprintf(&out, "\nOf %s's pictures, %d did not show the change yet and were taken again.\n", bed.name, bed.repeated)
		}
	}
	_, err := out.WriteTo(w)
	return err
}

// cells returns the result's line of a table.
func (r result) cells(alone bool) []string {
	goal := r.goal()
	switch {
	case alone:
		return []string{r.title, r.found(0), "", "", goal, ""}
	case r.impossible != "":
		return []string{r.title, r.found(0), r.impossible, "", goal, benchkit.Verdict(goal, r.met())}
	}
	times := ""
	if r.ratio() > 0 {
		times = benchkit.Significant(r.ratio())
	}
	return []string{r.title, r.found(0), r.found(1), times, goal, benchkit.Verdict(goal, r.met())}
}

// found describes what was measured of one server.
func (r result) found(k int) string {
	if len(r.times[k]) == 0 {
		return "never complete"
	}
	text := r.times[k].String()
	if r.bytes > 0 {
		text += fmt.Sprintf(", %s MB/s", benchkit.Significant(r.speed(k)))
	}
	if r.messages > 0 {
		text += fmt.Sprintf(", %.0f/s", r.speed(k))
	}
	if r.growth > 0 {
		text += fmt.Sprintf(", memory +%s MiB", benchkit.Significant(float64(r.grown[k])/(1<<20)))
	}
	if n := r.missed[k]; n > 0 {
		text += fmt.Sprintf("; %v", n)
	}
	return text
}

func (r result) goal() string {
	var goals []string
	switch {
	case r.factor == parity:
		goals = append(goals, "no slower")
	case r.factor >= 1:
		goals = append(goals, fmt.Sprintf("%gx", r.factor))
	case r.factor > 0:
		goals = append(goals, fmt.Sprintf("at most %gx the time", 1/r.factor))
	}
	if r.below > 0 {
		goals = append(goals, "below "+benchkit.Milliseconds(r.below))
	}
	switch {
	case r.rate > 0 && r.messages > 0:
		goals = append(goals, fmt.Sprintf("%g/s", r.rate))
	case r.rate > 0:
		goals = append(goals, fmt.Sprintf("%g MB/s", r.rate))
	}
	text := strings.Join(goals, " or ")
	if r.growth > 0 {
		text += fmt.Sprintf(", memory below +%d MiB", r.growth>>20)
	}
	if r.whole {
		text += ", nothing missing"
	}
	return strings.TrimPrefix(text, ", ")
}

// describe writes what was measured, and on which machine.
func (b *bench) describe(ctx context.Context, w io.Writer) error {
	if err := b.Describe(ctx, w); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d calls a row, %d of a short one. Files in memory are on %s, files on disk on %s.\n",
		b.calls, oftenTimes*b.calls, fileSystem(b.memory), fileSystem(b.Dir))
	if b.alone {
		return nil
	}
	theirs, err := benchkit.Version(ctx, b.reference, "--version")
	if err == nil {
		fmt.Fprintf(w, "The %s server: %s.\n", b.other(), theirs)
	}
	return err
}
