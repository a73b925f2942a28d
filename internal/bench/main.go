// Command bench measures deskhand against the server that it is compatible with,
// and prints tables.
//
// # Usage
//
//	make bench
//	go run ./internal/bench [-n 50] [-row png] [-quick] [-alone] [-idle 1m] [-record 30s] [-history 1000000] [-deskhand FILE]
//
// # What it measures
//
// Both servers run side by side, each with a desktop of 1440x900 pixels and three
// terminals that fill most of it. The reference server is the published binary,
// which npm installs by a lock file. deskhand is built from this tree. Each row
// calls the two servers in turn, over HTTP connections that stay open, and compares
// the medians of the time from sending a request to having read its answer.
//
// Where a row says that the screen changes, each terminal prints new lines before
// every call, the same lines on both desktops. The call begins after the terminals
// have confirmed that they processed the lines. A picture that equals the previous
// one is taken again, and the report gives their number.
//
// Other rows measure processes, terminals and files. "In memory" means on a memory
// file system, which no disk slows. deskhand syncs what it writes unless the row
// says otherwise. The reference never does. In a row whose readers must get
// everything, a call with an incomplete reader is reported and its time is left out.
// The growth of memory is the peak during all calls of a row minus the resident
// memory before them.
//
// For an idle server, the report gives deskhand's processor time and anonymous
// memory after the rows that look at the screen, and the resident memory of both
// servers before all rows. No client is connected then.
//
// Recordings are of three scenes: nothing changes, text scrolls in the terminals,
// a page scrolls in a browser. The processor time is what the server uses more than
// while the same scene is shown without a recording. At some moments the scene is
// held, and the picture in the video is compared with a screenshot. The keys are
// record-idle, record-text and record-page.
//
// Agents are measured with the mock agent. The reference keeps everything in memory.
// The row agent-prompt uses the reference's own mock agent, which echoes the message
// without a model of sessions, and measures a second deskhand with --database-sync
// normal. The rows agent-events and agent-readers give the reference deskhand's mock
// agent. The row agent-history measures deskhand alone.
//
// # Requirements
//
// The programs that the tests require, xdotool, ImageMagick and dbus-launch for the
// reference server, and at the first run the npm registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// options are the command line.
type options struct {
	benchkit.Options
	calls   int
	rounds  int // calls of a row whose calls consist of many
	alone   bool
	against string // a deskhand to measure in place of the reference
	idle    time.Duration
	record  time.Duration // of each scene
	events  int           // in the history of an agent's session
}

func main() { benchkit.Main("bench", run) }

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{rounds: 5}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.calls, "n", 50, "calls of each server, in each row")
	f.BoolVar(&o.alone, "alone", false, "measure deskhand without the reference server")
	f.StringVar(&o.against, "against", "", "another deskhand, such as one of a version before, to measure in place of the reference server")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the idle server, before and after the rows; 0: not at all")
	f.DurationVar(&o.record, "record", 30*time.Second, "how long to record each scene; 0: not at all")
	f.IntVar(&o.events, "history", 1_000_000, "how many events the history of an agent's session gets, at least 1000")
	if err := o.Parse(f, args, stderr); err != nil {
		return o, err
	}
	if o.alone && o.against != "" {
		return o, errors.New("wrong arguments: -against and -alone exclude each other")
	}
	if o.calls < 1 || o.idle < 0 || o.record < 0 || o.events < 1000 {
		return o, errors.New("wrong arguments: see -help")
	}
	if o.Quick {
		o.events = min(o.events, 20_000)
		o.calls, o.rounds, o.idle, o.record = 10, 1, min(o.idle, 5*time.Second), min(o.record, 5*time.Second)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	// The idle server is watched before the row that moves 50 MB through a
	// terminal: that memory is given back minutes later.
	steps := []func(context.Context) error{
		b.watchFresh,
		func(ctx context.Context) error { return b.measureRows(ctx, desktopCalls, desktopRows) },
		b.watchIdle,
		func(ctx context.Context) error { return b.measureRows(ctx, hostCalls, hostRows) },
		b.recordScenes,
		func(ctx context.Context) error { return b.measureRows(ctx, desktopCalls, startRows) }, // closes the terminals
		func(ctx context.Context) error { return b.measureRows(ctx, agentSessions, agentRows(b.events)) },
	}
	for _, step := range steps {
		if err = step(ctx); err != nil {
			break
		}
	}
	// After a failure the report has what was measured before.
	return errors.Join(err, b.report(context.WithoutCancel(ctx), stdout))
}

// measureRows measures the rows that were asked for, until one fails.
func (b *bench) measureRows(ctx context.Context, to section, rows []row) error {
	for _, r := range rows {
		if !b.Rows.MatchString(r.key) {
			continue
		}
		res, err := b.measure(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.key, err)
		}
		b.tables[to] = append(b.tables[to], res.cells(b.alone))
	}
	return nil
}
