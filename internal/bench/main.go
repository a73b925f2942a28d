// Command bench measures deskhand against the server that it is compatible
// with, and prints a table.
//
// # Usage
//
//	make bench
//	go run ./internal/bench [-n 50] [-row png] [-quick] [-alone] [-idle 1m] [-record 30s] [-history 1000000]
//
// # What it measures
//
// Both servers run side by side, each with a desktop of 1440x900 pixels and
// three terminals that fill most of it. The reference server is the published
// binary, which npm installs by a lock file; deskhand is built from this tree.
// Every row calls the two in turn, over HTTP connections that stay open, and
// compares the medians of the time from sending a request to having read its
// answer.
//
// Where a row says that the screen changes, each terminal prints new lines
// before every call, the same ones on both desktops. A call is made only after
// the terminals have answered that they are through with them; a picture that
// is the same as the one before is taken again, and the report tells how many
// were.
//
// Further rows are of processes, terminals and files. "In memory" means on a
// memory file system, which no disk slows; there, and on disk, deskhand syncs
// what it writes unless the row says otherwise, which the reference never does.
// A row whose readers must get everything compares what they get, and does not
// count the time of a call in which one of them missed something. The growth of
// memory is the peak during all calls of a row over what was resident before.
//
// Two figures are of deskhand alone: the processor time of its process while
// the desktop is on and nobody is connected, and its anonymous memory then,
// after the rows that look at the screen and before the others. The resident
// memory of both servers is measured before all rows, a while after the desktops
// were started.
//
// Recordings are of three scenes: nothing changes, text scrolls in the terminals,
// a page scrolls in a browser. Each is shown for a while without a recording, too,
// and what is used then does not count. At some moments the scene is held, and the
// picture in the video compared with a screenshot. Their keys are record-idle,
// record-text and record-page. The time from the stop to the file should not grow
// with the recording, which -row record-idle -record 10m shows.
//
// Agents are measured with the mock agent, on servers of their own: deskhand with
// --database-sync full and normal, and the reference, which keeps everything in
// memory. A prompt goes to each in turn; the reference's own mock agent echoes the
// message without a model of sessions, and so does less. Everywhere else it gets
// deskhand's mock agent. The keys are agent-prompt, agent-events, agent-readers and
// agent-history.
//
// # Requirements
//
// Those of the tests, xdotool, ImageMagick and dbus-launch for the reference
// server, and at the first run the npm registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	calls  int
	rounds int // of rows that make many calls at once
	rows   *regexp.Regexp
	alone  bool
	idle   time.Duration
	record time.Duration // how long each scene is recorded
	events int           // of the history of an agent's session
	binary string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.calls, "n", 50, "calls of each server, in each row")
	filter := f.String("row", "", "only rows whose key matches this regular expression")
	quick := f.Bool("quick", false, "ten calls and a short idle time: to see that it works")
	f.BoolVar(&o.alone, "alone", false, "measure deskhand without the reference server")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the idle server, before and after the rows; 0: not at all")
	f.DurationVar(&o.record, "record", 30*time.Second, "how long to record each scene; 0: not at all")
	f.IntVar(&o.events, "history", 1_000_000, "how many events the history of an agent's session gets, at least 1000")
	f.StringVar(&o.binary, "deskhand", "", "the deskhand to measure, instead of one built from this tree")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.calls < 1 || o.idle < 0 || o.record < 0 || o.events < 1000 {
		return o, errors.New("wrong arguments: see -help")
	}
	o.rounds = 5
	if *quick {
		o.events = min(o.events, 20_000)
		o.calls, o.rounds, o.idle, o.record = 10, 1, min(o.idle, 5*time.Second), min(o.record, 5*time.Second)
	}
	var err error
	o.rows, err = regexp.Compile(*filter)
	return o, err
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

	if o.idle > 0 {
		if err := b.watchFresh(ctx); err != nil {
			return err
		}
	}
	results, failed := b.measureRows(ctx)
	if failed == nil && o.idle > 0 && b.idle == nil {
		failed = b.watchIdle(ctx)
	}
	if failed == nil {
		failed = b.measureAgents(ctx)
	}
	// What was measured before a failure took its time, too.
	return errors.Join(failed, b.report(context.WithoutCancel(ctx), stdout, results))
}

// measureRows measures the rows that were asked for, until one fails.
func (b *bench) measureRows(ctx context.Context) (results []result, err error) {
	for _, r := range rows {
		if !b.options.rows.MatchString(r.key) {
			continue
		}
		// What 50 MB in a terminal leave is given back minutes later.
		if (r.last || r.host) && b.options.idle > 0 && b.idle == nil {
			if err := b.watchIdle(ctx); err != nil {
				return results, err
			}
		}
		if r.last { // the terminals will be gone
			if err := b.recordScenes(ctx); err != nil {
				return results, err
			}
		}
		res, err := b.measure(ctx, r)
		if err != nil {
			return results, fmt.Errorf("%s: %w", r.key, err)
		}
		results = append(results, res)
	}
	return results, b.recordScenes(ctx)
}
