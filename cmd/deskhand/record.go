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

const aboutRecord = `Records the desktop of a running server until Ctrl-C, or for --duration, or until
the desktop ends. Prints the recording's id, or with --output the file that it was
downloaded to. A line on the terminal shows how long and large it is meanwhile.`

const (
	// recordBeat is how often the server is asked how far the recording is.
	recordBeat = 500 * time.Millisecond
	// recordPatience is how long the server may take to start or stop one, also
	// after Ctrl-C.
	recordPatience = 30 * time.Second
)

// recordFlags say what to record, and where to.
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

// recorded is what the server tells of a recording.
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
	flags.StringVarP(&f.output, "output", "o", "", "download it to a `file` at the end; - is standard output")
	flags.DurationVarP(&f.duration, "duration", "d", 0, "how long to record, as in `1m30s`; until Ctrl-C, unless given")
	flags.StringVar(&f.desktop, "desktop", "main", "`id` of the desktop")
	flags.IntVar(&f.fps, "fps", 0, "pictures per second at `most`, 1 to 60; the server decides, unless given")
	flags.StringVar(&f.quality, "quality", "", "`low|medium|high`; medium, unless given")
	flags.Float64Var(&f.scale, "scale", 0, "size of the video by that of the screen, `0.1 to 1`; 1, unless given")
	flags.BoolVar(&f.noCursor, "no-cursor", false, "leave the pointer out")
	flags.BoolVar(&f.sound, "sound", false, "record sound, too")
	flags.StringVar(&f.title, "title", "", "what to call it")
	flags.BoolVar(&f.remove, "delete", false, "delete it from the server after the download")
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

// body is the request that the flags make, which are checked before anything is
// recorded. given says whether a flag was.
func (f *recordFlags) body(given func(string) bool) ([]byte, error) {
	switch {
	case f.duration < 0 || given("duration") && f.duration < time.Millisecond:
		return nil, usagef("--duration must be longer than nothing, as in 90s")
	case f.remove && f.output == "":
		return nil, usagef("--delete needs --output: nothing would be left of the recording")
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
	// A start that is given up would leave a recording that nobody stops.
	if err := s.call(context.WithoutCancel(ctx), &s.now, "POST", s.path(""), "--json", string(body)); err != nil {
		return err
	}
	err := s.follow(ctx)
	// What was recorded is kept whatever happened.
	late := context.WithoutCancel(ctx)
	if err == nil && s.now.Status == "recording" {
		err = s.call(late, &s.now, "POST", s.path(s.now.ID+"/stop"))
		if problem, ok := errors.AsType[*apiclient.ProblemError](err); ok && problem.Status == 409 {
			err = s.look(late) // it was over by itself at that moment
		}
	}
	if err != nil {
		return fmt.Errorf("recording %s: %w", s.now.ID, err)
	}
	if s.now.Status == "failed" {
		return fmt.Errorf("recording %s failed (%s): %s", s.now.ID, s.now.Reason, cmp.Or(s.now.Error, "the server tells no more"))
	}
	fmt.Fprintf(s.stderr, "Recorded %s, %s: %s\n", elapsed(time.Duration(s.now.Duration)*time.Millisecond), size(s.now.Bytes), s.now.ID)
	if why := s.now.early(); why != "" {
		fmt.Fprintf(s.stderr, "It ended before it was told to: %s\n", why)
	}
	return s.finish(late)
}

// early says why a recording ended that neither Ctrl-C nor --duration did, or is
// empty.
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

// follow shows how the recording goes until it ends, or the user ends it.
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
		// A server that is busy for a moment still records.
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			if failed++; failed == 5 {
				return err
			}
			continue
		}
		failed = 0
	}
	return nil
}

func (s *recordSession) look(ctx context.Context) error {
	return s.call(ctx, &s.now, "GET", s.path(s.now.ID))
}

// path is that of something below the desktop's recordings.
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
		return fmt.Errorf("the server's answer was not understood: %w", err)
	}
	return nil
}

// recordLine shows a recording on one line of a terminal. A nil one shows
// nothing.
type recordLine struct {
	out    *os.File
	begun  time.Time
	frames int64
	at     time.Time
	rate   float64 // pictures in a second, lately
}

// newRecordLine is nil when nobody looks.
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
	text := fmt.Sprintf("recording  %s  %s  %.0f frames/s  Ctrl-C ends it", elapsed(now.Sub(l.begun)), size(r.Bytes), l.rate)
	if columns, _, err := term.GetSize(int(l.out.Fd())); err == nil && columns > 0 {
		text = text[:min(len(text), columns-1)]
	}
	fmt.Fprint(l.out, "\r"+text+"\x1b[K")
}

// close wipes the line.
func (l *recordLine) close() {
	if l != nil {
		_, _ = io.WriteString(l.out, "\r\x1b[K")
	}
}

// elapsed is a time as clocks show it.
func elapsed(d time.Duration) string {
	seconds := int(d / time.Second)
	if seconds < 3600 {
		return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// size is an amount of data as people read it.
func size(n int64) string {
	value, unit := float64(n), 0
	for ; value >= 1024 && unit < 4; unit++ {
		value /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit-1])
}
