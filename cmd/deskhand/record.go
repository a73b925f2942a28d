package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/apiclient"
	"github.com/deskhand/deskhand/recording"
)

const aboutRecord = `Records a desktop of a running server until Ctrl-C, for --duration, or until the
desktop ends. Prints the recording's id, or the file of --output. While it records, a
line on the terminal shows the duration and size.`

const (
	// recordBeat is the time between two requests for the recording's status.
	recordBeat = 500 * time.Millisecond
	// recordPatience bounds each request, also after Ctrl-C.
	recordPatience = 30 * time.Second
)

// recordFlags are the flags of record.
type recordFlags struct {
	clientFlags
	desktop  string
	output   string
	duration time.Duration
	fps      int
	quality  string
	scale    float64
	noCursor bool
	sound    bool
	title    string
	remove   bool
}

// recorded is the server's description of a recording.
type recorded struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Bytes    int64  `json:"bytes"`
	Duration int64  `json:"durationMs"`
	Frames   int64  `json:"frames"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
}

// record records a desktop of a running server.
func (p program) record(ctx context.Context, access accessFlags, args []string) error {
	f := recordFlags{clientFlags: clientFlags{accessFlags: access}}
	flags := p.flags("record", aboutRecord)
	flags.StringVarP(&f.output, "output", "o", "", "download the recording to a `file`; - is standard output")
	flags.DurationVarP(&f.duration, "duration", "d", 0, "stop after a `time` such as 1m30s (default: at Ctrl-C)")
	flags.StringVar(&f.desktop, "desktop", "main", "`id` of the desktop")
	flags.IntVar(&f.fps, "fps", 0, "maximum `number` of pictures per second, 1 to 60 (default: the server's)")
	flags.StringVar(&f.quality, "quality", "", "`low|medium|high` (default medium)")
	flags.Float64Var(&f.scale, "scale", 0, "`factor` from screen size to video size, 0.1 to 1 (default 1)")
	flags.BoolVar(&f.noCursor, "no-cursor", false, "do not record the pointer")
	flags.BoolVar(&f.sound, "sound", false, "also record sound")
	flags.StringVar(&f.title, "title", "", "`title` of the recording")
	flags.BoolVar(&f.remove, "delete", false, "delete the recording from the server after the download")
	f.clientFlags.register(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("record takes no argument, so not %q; --output names a file", flags.Arg(0))
	}
	body, err := f.body(flags.Changed)
	if err != nil {
		return err
	}
	server, err := f.server()
	if err != nil {
		return err
	}
	hide(server.Token, p.argv)
	s := recordSession{
		program: p, flags: f,
		api: apiclient.Command{
			Name: p.name + " record", Document: httpapi.OpenAPI(), Stdin: p.stdin, Stderr: p.stderr,
			Connect: func() (apiclient.Server, error) { return server, nil },
		},
	}
	return s.run(ctx, body)
}

// body checks the flags and returns the request that they make. given reports
// whether a flag was given.
func (f *recordFlags) body(given func(string) bool) ([]byte, error) {
	switch {
	case f.duration < 0 || given("duration") && f.duration < time.Millisecond:
		return nil, usagef("--duration must be longer than 0, such as 90s")
	case f.remove && f.output == "":
		return nil, usagef("--delete needs --output: without it the recording would be lost")
	case f.output != "" && f.output != "-":
		if info, err := os.Stat(f.output); err == nil && info.IsDir() {
			return nil, usagef("--output %s is a directory; name a file in it", f.output)
		}
		if info, err := os.Stat(filepath.Dir(f.output)); err != nil || !info.IsDir() {
			return nil, usagef("--output %s: there is no directory %s", f.output, filepath.Dir(f.output))
		}
	}
	body := map[string]any{}
	for flag, member := range map[string]struct {
		name  string
		value any
	}{
		"duration": {"maxDurationMs", f.duration.Milliseconds()}, "fps": {"fps", f.fps}, "quality": {"quality", f.quality},
		"scale": {"scale", f.scale}, "no-cursor": {"cursor", !f.noCursor}, "sound": {"sound", f.sound}, "title": {"title", f.title},
	} {
		if given(flag) {
			body[member.name] = member.value
		}
	}
	return json.Marshal(body)
}

// recordSession is one recording, from its start to the download.
type recordSession struct {
	program

	flags recordFlags
	api   apiclient.Command
	now   recorded
}

func (s *recordSession) run(ctx context.Context, body []byte) error {
	// If a signal ended the request, the recording could go on without end.
	if err := s.call(context.WithoutCancel(ctx), &s.now, "POST", s.path(""), "--json", string(body)); err != nil {
		return err
	}
	err := s.follow(ctx)
	// The recording is stopped and downloaded also after a signal.
	late := context.WithoutCancel(ctx)
	if err == nil && s.now.Status == "recording" {
		err = s.call(late, &s.now, "POST", s.path(s.now.ID+"/stop"))
		if problem, ok := errors.AsType[*apiclient.ProblemError](err); ok && problem.Status == 409 {
			err = s.refresh(late) // it ended at that moment
		}
	}
	if err != nil {
		return fmt.Errorf("recording %s: %w", s.now.ID, err)
	}
	if s.now.Status == "failed" {
		return fmt.Errorf("recording %s failed (%s): %s", s.now.ID, s.now.Reason, cmp.Or(s.now.Error, "the server gives no reason"))
	}
	fmt.Fprintf(s.stderr, "Recorded %s, %s: %s\n", elapsed(time.Duration(s.now.Duration)*time.Millisecond), apiclient.ByteCount(s.now.Bytes), s.now.ID)
	if why := s.now.early(); why != "" {
		fmt.Fprintf(s.stderr, "The recording ended early: %s\n", why)
	}
	return s.finish(late)
}

// early returns why a recording has ended, or "" after Ctrl-C or --duration.
func (r *recorded) early() string {
	if reason := recording.Reason(r.Reason); reason == recording.ReasonStopped || reason == recording.ReasonMaxDuration {
		return ""
	}
	if r.Error == "" {
		return r.Reason
	}
	return r.Reason + " (" + r.Error + ")"
}

// finish downloads the recording, if that was asked for.
func (s *recordSession) finish(ctx context.Context) error {
	if s.flags.output == "" {
		_, err := fmt.Fprintln(s.stdout, s.now.ID)
		return err
	}
	download := s.api
	download.Stdout = s.stdout
	if err := download.Run(ctx, []string{"GET", s.path(s.now.ID + "/download"), "--output", s.flags.output}); err != nil {
		return fmt.Errorf("%w; the recording is on the server as %s", err, s.now.ID)
	}
	if s.flags.output != "-" {
		if _, err := fmt.Fprintln(s.stdout, s.flags.output); err != nil {
			return err
		}
	}
	if !s.flags.remove {
		return nil
	}
	return s.call(ctx, nil, "DELETE", s.path(s.now.ID))
}

// follow shows the recording's progress until it ends or ctx does.
func (s *recordSession) follow(ctx context.Context) error {
	line := newRecordLine(s.stderr)
	defer line.close()
	beat := time.NewTicker(recordBeat)
	defer beat.Stop()
	failed := 0
	for s.now.Status == "recording" {
		line.show(s.now)
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		// A single failure may come from a busy server, which still records.
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			if failed++; failed == 5 {
				return err
			}
			continue
		}
		failed = 0
	}
	return nil
}

func (s *recordSession) refresh(ctx context.Context) error {
	return s.call(ctx, &s.now, "GET", s.path(s.now.ID))
}

// path returns a path below the desktop's recordings.
func (s *recordSession) path(rest string) string {
	base := "/v1/desktop/recordings"
	if s.flags.desktop != "main" {
		base = "/v1/desktops/" + url.PathEscape(s.flags.desktop) + "/recordings"
	}
	if rest == "" {
		return base
	}
	return base + "/" + rest
}

// call calls the server, and decodes its answer.
func (s *recordSession) call(ctx context.Context, into any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	var answer bytes.Buffer
	c := s.api
	c.Stdout = &answer
	if err := c.Run(ctx, args); err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer.Bytes(), into); err != nil {
		return fmt.Errorf("decode the server's answer: %w", err)
	}
	return nil
}

// recordLine shows a recording on one line of a terminal. A nil recordLine shows
// nothing.
type recordLine struct {
	out    *os.File
	begun  time.Time
	frames int64
	at     time.Time
	rate   float64 // pictures in a second, smoothed
}

// newRecordLine returns nil if out is not a terminal.
func newRecordLine(out *os.File) *recordLine {
	if !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	now := time.Now()
	return &recordLine{out: out, begun: now, at: now}
}

func (l *recordLine) show(r recorded) {
	if l == nil {
		return
	}
	now := time.Now()
	if passed := now.Sub(l.at); passed >= recordBeat/2 {
		l.rate += 0.5 * (float64(r.Frames-l.frames)/passed.Seconds() - l.rate)
		l.frames, l.at = r.Frames, now
	}
	text := fmt.Sprintf("recording  %s  %s  %.0f frames/s  Ctrl-C ends it", elapsed(now.Sub(l.begun)), apiclient.ByteCount(r.Bytes), l.rate)
	fmt.Fprint(l.out, "\r"+text[:min(len(text), apiclient.Width(l.out)-1)]+"\x1b[K")
}

// close removes the line.
func (l *recordLine) close() {
	if l != nil {
		_, _ = io.WriteString(l.out, "\r\x1b[K")
	}
}

// elapsed formats a time as minutes and seconds, with hours if there are any.
func elapsed(d time.Duration) string {
	seconds := int(d / time.Second)
	if seconds < 3600 {
		return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}
