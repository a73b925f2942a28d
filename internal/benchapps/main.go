// Command benchapps lets deskhand do tasks in real applications, and counts how often
// their outcome is as wanted.
//
// # Usage
//
//	make bench-apps
//	go run ./internal/benchapps [-n 20] [-row Chromium] [-quick] [-load idle|busy|both] [-by both|deskhand|xdotool] [-pictures DIR] [-deskhand FILE]
//
// # What it measures
//
// A task is a few steps in an application, without a pause or a look at the screen
// between them, as a program does them that knows the application. The outcome is
// checked from outside: by a file, the clipboard or the title of a window. Each round
// starts the application anew. deskhand gets one HTTP call a step in the first round,
// one list of actions in the second, and so on. xdotool gets the same steps. "Busy" means
// that two processes use all the processor time they get.
//
// # Requirements
//
// The programs that .ci/install lists for apps. A task whose program is missing is
// left out, and the last line names it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/supervise"
)

type options struct {
	benchkit.Options
	rounds   int
	load, by string
	pictures string
}

func main() { benchkit.Main("benchapps", run) }

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("benchapps", flag.ContinueOnError)
	f.IntVar(&o.rounds, "n", 20, "rounds of each task")
	f.StringVar(&o.load, "load", "both", "idle, busy or both")
	f.StringVar(&o.by, "by", "both", "deskhand, xdotool or both")
	f.StringVar(&o.pictures, "pictures", "", "a directory for a picture of the screen after each failed round")
	if err := o.Parse(f, args, stderr); err != nil {
		return o, err
	}
	if o.rounds < 1 || !slices.Contains([]string{"idle", "busy", "both"}, o.load) || !slices.Contains([]string{"deskhand", "xdotool", "both"}, o.by) {
		return o, errors.New("wrong arguments: see -help")
	}
	if o.Quick {
		o.rounds = 1
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r, err := benchkit.Start(ctx, o.Options, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := newBed(ctx, r, o.pictures)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var cells [][]string
	var skipped []string
	totals := make([]score, len(columns))
	for _, t := range tasks {
		if !o.Rows.MatchString(t.name()) {
			continue
		}
		if missing := t.missing(); missing != "" {
			r.Tell("%s: left out, there is no %s", t.name(), missing)
			skipped = append(skipped, t.name())
			continue
		}
		scores, err := b.measure(ctx, t, o)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		cells = append(cells, row(t.name(), scores))
		for i, s := range scores {
			totals[i].good += s.good
			totals[i].all += s.all
		}
	}
	cells = append(cells, row("all", totals))
	benchkit.Table(stdout, []string{"task", "deskhand", "busy", "xdotool", "busy"}, cells)
	fmt.Fprintf(stdout, "\n%d tasks. Left out, as their programs are missing: %s.\n", len(cells)-1, cmp.Or(strings.Join(skipped, "; "), "none"))
	return r.Describe(context.WithoutCancel(ctx), stdout)
}

// columns are what is measured for each task.
var columns = []struct{ by, load string }{{"deskhand", "idle"}, {"deskhand", "busy"}, {"xdotool", "idle"}, {"xdotool", "busy"}}

// score counts rounds.
type score struct{ good, all int }

func row(name string, scores []score) []string {
	out := []string{name}
	for _, s := range scores {
		text := ""
		if s.all > 0 {
			text = fmt.Sprintf("%d/%d", s.good, s.all)
		}
		out = append(out, text)
	}
	return out
}

// measure does the rounds of a task.
func (b *bed) measure(ctx context.Context, t task, o options) ([]score, error) {
	scores := make([]score, len(columns))
	for i, c := range columns {
		if o.by != "both" && o.by != c.by || o.load != "both" && o.load != c.load {
			continue
		}
		good, err := b.rounds(ctx, t, c.by, c.load == "busy", o.rounds)
		if err != nil {
			return nil, err
		}
		b.run.Tell("%s, %s, %s: %d/%d", t.name(), c.by, c.load, good, o.rounds)
		scores[i] = score{good, o.rounds}
	}
	return scores, nil
}

func (b *bed) rounds(ctx context.Context, t task, by string, busy bool, n int) (good int, err error) {
	if busy {
		idle, err := b.burn()
		if err != nil {
			return 0, err
		}
		defer idle()
	}
	for i := range n {
		got, err := b.round(ctx, t, by, i)
		if ctx.Err() != nil {
			return good, ctx.Err()
		}
		switch {
		case err != nil:
			b.run.Tell("%s, %s, round %d: %v", t.name(), by, i+1, err)
		case got != "":
			b.run.Tell("%s, %s, round %d: got %.200q", t.name(), by, i+1, got)
		default:
			good++
		}
	}
	return good, nil
}

// outcomeLimit is how long the outcome of a task may take to be there.
const outcomeLimit = 6 * time.Second

// round does a task once. It returns what the outcome is, or "" if it is as wanted.
func (b *bed) round(ctx context.Context, t task, by string, n int) (got string, err error) {
	r := &round{bed: b, ctx: ctx}
	if r.dir, err = os.MkdirTemp(b.run.Dir, "round-"); err != nil {
		return "", err
	}
	defer os.RemoveAll(r.dir)
	defer r.end()
	act := r.act
	switch {
	case by == "xdotool":
		act = r.actByXdotool
	case n%2 == 1:
		act = r.actInLists
	}
	name := fmt.Sprintf("%s %s %d", t.name(), by, n+1)
	if err := r.start(t); err != nil {
		return "", errors.Join(err, r.picture(name))
	}
	if err := act(t.steps); err != nil {
		return "", errors.Join(err, r.picture(name))
	}
	for deadline := time.Now().Add(outcomeLimit); ; {
		got, ok := t.check(r)
		if ok {
			return "", nil
		}
		if time.Now().After(deadline) {
			return "other: " + got, r.picture(name)
		}
		if err := benchkit.Pause(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// burn keeps two processors busy until idle is called.
func (b *bed) burn() (idle func(), err error) {
	group, err := supervise.NewGroup(supervise.GroupConfig{Owner: "bench", Dir: filepath.Join(b.run.Dir, "burn")})
	if err != nil {
		return nil, err
	}
	for range 2 {
		if _, err := group.Start(supervise.Spec{Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}, Env: os.Environ()}); err != nil {
			return nil, errors.Join(err, group.Close())
		}
	}
	return func() { _ = group.Close() }, nil
}

// missing returns a program that the task needs and this machine lacks.
func (t task) missing() string {
	for _, name := range []string{"xdotool", strings.Fields(t.app.command)[0]} {
		if _, err := supervise.LookPath(name, os.Environ()); err != nil {
			return name
		}
	}
	return ""
}
