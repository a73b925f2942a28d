// Command benchsettle measures how well Settle finds the end of what programs draw. It starts
// real programs, acts on them, waits as the tools of agents do, and goes on watching the screen
// for a second. It prints a table of Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

var (
	only   = flag.String("only", "", "the `program` to measure; all if empty")
	rounds = flag.Int("rounds", 3, "how often to start each program")
	still  = flag.Duration("still", 0, "wait until nothing changes for this `time`, instead of Settle")
)

const (
	quiet   = 200 * time.Millisecond
	timeout = 2 * time.Second
	// after is how long the screen is watched after Settle.
	after = time.Second
)

func main() {
	flag.Parse()
	ctx := context.Background()
	fmt.Println("| program | actions | last change, ms | settled, ms | after the last change, ms | changed later | timed out |")
	fmt.Println("|---|---|---|---|---|---|---|")
	var all tally
	for _, s := range scenes {
		if *only != "" && s.name != *only {
			continue
		}
		if _, err := exec.LookPath(s.app); err != nil {
			fmt.Fprintf(os.Stderr, "%s is not installed\n", s.app)
			continue
		}
		var t tally
		for range *rounds {
			if err := t.play(ctx, s); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			}
		}
		fmt.Println(t.row(s.name))
		all.add(&t)
	}
	fmt.Println(all.row("all"))
}

// play starts the program of a scene on a desktop of its own, and does the steps.
func (t *tally) play(ctx context.Context, s scene) error {
	d, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "benchsettle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args, err := s.prepare(ctx, dir)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	w := watcher{}
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(ctx, d.Feed()) })
	defer func() {
		cancel()
		watching.Wait()
		_ = d.Close()
	}()
	// Over a program the pointer would show hints.
	_, err = d.Move(ctx, desktop.Move{At: desktop.Point{X: desktop.DefaultWidth - 1, Y: desktop.DefaultHeight - 1}})
	if err != nil {
		return err
	}
	err = t.measure(ctx, d, &w, "launch", func() error {
		_, err := d.Launch(ctx, desktop.Launch{App: s.app, Args: args, Wait: true})
		return err
	})
	for _, step := range s.steps {
		if err == nil {
			err = t.measure(ctx, d, &w, step, func() error { return act(ctx, d, step) })
		}
	}
	for _, wait := range t.waits { // now it is known what changes again and again
		t.judge(&w, wait)
	}
	t.waits = nil
	return err
}

// prepare writes the files of a scene, and returns the arguments of its program.
func (s scene) prepare(ctx context.Context, dir string) ([]string, error) {
	switch s.app {
	case "java":
		source := filepath.Join(dir, "Save.java")
		if err := os.WriteFile(source, []byte(swing), 0o600); err != nil {
			return nil, err
		}
		return []string{"-cp", dir, "Save"}, exec.CommandContext(ctx, "javac", "-d", dir, source).Run()
	case "chromium", "firefox-esr":
		source := filepath.Join(dir, "page.html")
		return append(s.args, "file://"+source), os.WriteFile(source, []byte(fmt.Sprintf(page, s.page)), 0o600)
	}
	return s.args, nil
}

// act does a step: "type TEXT", "press KEYS" or "click X Y".
func act(ctx context.Context, d *desktop.Desktop, step string) error {
	verb, what, _ := strings.Cut(step, " ")
	switch verb {
	case "type":
		return d.Type(ctx, desktop.Type{Text: what})
	case "press":
		return d.Press(ctx, desktop.Press{Keys: what})
	}
	var at desktop.Point
	if _, err := fmt.Sscan(what, &at.X, &at.Y); err != nil {
		return err
	}
	_, err := d.Click(ctx, desktop.Click{At: &at})
	return err
}

// wait is a wait after an action.
type wait struct {
	step       string
	begin, end time.Time
	result     desktop.Settled
}

// measure acts, waits, and watches.
func (t *tally) measure(ctx context.Context, d *desktop.Desktop, w *watcher, step string, do func() error) error {
	begin := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	var r desktop.Settled
	var err error
	if *still > 0 {
		r.Quiet = w.still(*still, time.Now().Add(timeout))
	} else if r, err = d.Settle(ctx, quiet, timeout); err != nil {
		return err
	}
	t.waits = append(t.waits, wait{step, begin, time.Now(), r})
	time.Sleep(after)
	return nil
}

// judge adds what was measured of a wait.
func (t *tally) judge(w *watcher, a wait) {
	last, late := w.judge(a, t.waits)
	t.actions++
	t.settled = append(t.settled, a.end.Sub(a.begin))
	t.last = append(t.last, last.Sub(a.begin))
	switch {
	case !a.result.Quiet:
		t.timedOut++
	case late != image.Rectangle{}:
		t.late++
		fmt.Fprintf(os.Stderr, "%s: settled after %d ms, and %v changed within %v\n", a.step, a.end.Sub(a.begin).Milliseconds(), late, after)
		fallthrough
	default:
		t.over = append(t.over, a.end.Sub(last))
	}
}
