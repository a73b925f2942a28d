package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

const (
	recordedRate = 30 // pictures a second
	probes       = 5  // pictures of a scene that are compared

	// startTime is for the start of the encoder, which is not measured.
	startTime = time.Second
)

// Goals of recordings that no scene has of its own.
const (
	mostLost = 0.005
	mostStop = 500 // milliseconds
)

// recording is a scene's recording by one server.
type recording struct {
	processor float64       // of a core: what all processes use more than without
	bytes     int64         // of the file
	ssim      float64       // of the probes, in the mean
	lost      float64       // share of the pictures; negative: the server does not report it
	stop      time.Duration // from asking for the end to having the file's first bytes
	seconds   float64       // of video
}

// recordScenes records each scene with each server, once.
func (b *bench) recordScenes(ctx context.Context) error {
	if b.record == 0 {
		return nil
	}
	for _, sc := range scenes {
		if !b.Rows.MatchString(sc.key) {
			continue
		}
		var by [2]recording
		for k, bed := range b.beds {
			b.Tell("recording: %s, with %s", sc.title, bed.name)
			var err error
			if by[k], err = bed.recordScene(ctx, sc, b.record); err != nil {
				return fmt.Errorf("recording of %s: %s: %w", sc.title, bed.name, err)
			}
		}
		b.addRecordings(sc, by)
	}
	return nil
}

// addRecordings adds the lines of a scene to the report.
func (b *bench) addRecordings(s scene, by [2]recording) {
	ours, theirs := by[0], by[1]
	line := func(what string, text func(recording) string, goal string, met bool) {
		b.line(recordings, s.title+": "+what, text(ours), text(theirs), goal, met)
	}
	goal, met := "", true
	switch {
	case s.processor > 0:
		goal, met = fmt.Sprintf("at most %g %%", 100*s.processor), ours.processor <= s.processor
	case s.ratio > 0 && !b.alone:
		goal, met = fmt.Sprintf("at most %gx", s.ratio), ours.processor <= s.ratio*theirs.processor
	}
	line("processor", func(r recording) string { return fmt.Sprintf("%.1f %% of a core", 100*r.processor) }, goal, met)
	goal = ""
	if s.size > 0 && !b.alone {
		goal, met = fmt.Sprintf("at most %gx, SSIM %g", s.size, s.ssim), float64(ours.bytes) <= s.size*float64(theirs.bytes) && ours.ssim >= s.ssim
	}
	line("bytes", func(r recording) string { return fmt.Sprintf("%.2f MB, SSIM %.4f", float64(r.bytes)/1e6, r.ssim) }, goal, met)
	line("pictures lost", func(r recording) string {
		if r.lost < 0 {
			return "not reported"
		}
		return fmt.Sprintf("%.2f %%", 100*r.lost)
	}, fmt.Sprintf("below %g %%", 100*mostLost), ours.lost >= 0 && ours.lost < mostLost)
	line("from stop to the file's first bytes", func(r recording) string {
		return fmt.Sprintf("%s, of %.1f s", benchkit.Milliseconds(r.stop), r.seconds)
	}, fmt.Sprintf("below %d ms", mostStop), ours.stop.Milliseconds() < mostStop)
}

func (b *bed) recordScene(ctx context.Context, sc scene, length time.Duration) (r recording, err error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	stage, err := sc.open(ctx, b)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	without, err := b.watchProcessor(ctx, length/2, nil)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	if _, err := b.call(ctx, http.MethodPost, "/v1/desktop/recording/start", map[string]any{"fps": recordedRate}); err != nil {
		return r, err
	}
	if err := benchkit.Pause(ctx, startTime); err != nil {
		return r, err
	}
	var shots []probe
	with, err := b.watchProcessor(ctx, length, func(ctx context.Context) error {
		shot, err := b.probe(ctx, stage, begun)
		shots = append(shots, shot)
		return err
	})
	if err != nil {
		return r, err
	}
	r.processor = with - without
	length = time.Since(begun)
	file, err := b.endRecording(ctx, &r)
	if err != nil {
		return r, err
	}
	defer os.Remove(file)
	if r.seconds, err = videoSeconds(ctx, file); err != nil {
		return r, err
	}
	// On a busy machine the recorder's programs take a while to start.
	late := max(0, length-time.Duration(r.seconds*float64(time.Second)))
	for _, shot := range shots {
		shot.at -= late
		ssim, err := shot.compare(ctx, file)
		if err != nil {
			return r, err
		}
		r.ssim += ssim / float64(len(shots))
	}
	return r, nil
}

// watchProcessor returns how much of a core all of the server's processes use in
// a time. It calls probe probes times in between, if it is not nil. What the server
// uses during these calls does not count.
func (b *bed) watchProcessor(ctx context.Context, length time.Duration, probe func(context.Context) error) (float64, error) {
	n := 1
	if probe != nil {
		n = probes
	}
	share := 0.0
	for range n {
		part, err := benchkit.Share(ctx, length/time.Duration(n), b.server.ProcessorTime)
		if err != nil {
			return 0, err
		}
		share += part / float64(n)
		if probe != nil {
			if err := probe(ctx); err != nil {
				return 0, err
			}
		}
	}
	return share, nil
}

// probe is the screen at some moment of a recording.
type probe struct {
	at     time.Duration // since the start was asked for
	screen string        // a file
}

// probe holds the scene for a moment and looks at it.
func (b *bed) probe(ctx context.Context, s *stage, begun time.Time) (probe, error) {
	if err := s.hold(ctx); err != nil {
		return probe{}, err
	}
	p := probe{time.Since(begun), filepath.Join(b.server.Home, "probe-"+seconds(time.Since(begun))+".png")}
	if _, err := b.call(ctx, http.MethodGet, "/v1/desktop/screenshot?format=png", nil); err != nil {
		return p, err
	}
	if err := os.WriteFile(p.screen, b.body.Bytes(), 0o600); err != nil {
		return p, err
	}
	// The held scene stays in the video for a while, also where pictures are late.
	if err := benchkit.Pause(ctx, 200*time.Millisecond); err != nil {
		return p, err
	}
	return p, s.resume(ctx)
}

// around is how far from a probe's moment in the video its picture may be, because
// the video begins somewhat after it was asked for.
const around = 1500 * time.Millisecond

// compare returns the greatest similarity (SSIM) of the screen's luma to a picture of
// the video near the probe's moment.
func (p probe) compare(ctx context.Context, file string) (best float64, err error) {
	from := max(0, p.at-around)
	out, err := exec.CommandContext(ctx, "ffmpeg", "-hide_banner", "-loglevel", "error",
		"-ss", seconds(from), "-t", seconds(p.at+around-from), "-i", file, "-i", p.screen,
		"-lavfi", "[0:v]format=gray[video];[1:v]format=gray[screen];[video][screen]ssim=stats_file=-", "-f", "null", "-").Output()
	if err != nil {
		return 0, fmt.Errorf("ffmpeg %s: %w", file, err)
	}
	for line := range strings.Lines(string(out)) { // n:1 Y:0.98 All:0.98 (17.0)
		var ssim float64
		_, text, _ := strings.Cut(line, "All:")
		if _, err := fmt.Sscan(text, &ssim); err != nil {
			return 0, fmt.Errorf("ffmpeg %s: %q", file, line)
		}
		best = max(best, ssim)
	}
	if best == 0 {
		return 0, fmt.Errorf("%s has no picture near %v", file, p.at)
	}
	return best, nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// videoSeconds returns the duration of a video.
func videoSeconds(ctx context.Context, file string) (float64, error) {
	out, err := exec.CommandContext(ctx, "ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", file).Output()
	if err != nil {
		return 0, fmt.Errorf("ffprobe %s: %w", file, err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// endRecording ends the recording and downloads it.
func (b *bed) endRecording(ctx context.Context, r *recording) (file string, err error) {
	begin := time.Now()
	if _, err := b.call(ctx, http.MethodPost, "/v1/desktop/recording/stop", nil); err != nil {
		return "", err
	}
	var info struct {
		ID, Status, Error string
		Frames, Dropped   *int64
	}
	if err := json.Unmarshal(b.body.Bytes(), &info); err != nil {
		return "", err
	}
	if info.Status != "completed" {
		return "", fmt.Errorf("the recording is %s: %s", info.Status, info.Error)
	}
	path := "/v1/desktop/recordings/" + info.ID
	req, err := b.server.Request(ctx, http.MethodGet, path+"/download", nil)
	if err != nil {
		return "", err
	}
	file = filepath.Join(b.server.Home, info.ID+".mp4")
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	first := &firstByte{to: f}
	if err := errors.Join(benchkit.Do(b.http, req, first), f.Close()); err != nil {
		return "", err
	}
	r.stop, r.bytes, r.lost = first.at.Sub(begin), first.bytes, -1
	if info.Frames != nil && *info.Frames > 0 {
		r.lost = 0
		if info.Dropped != nil {
			r.lost = float64(*info.Dropped) / float64(*info.Frames+*info.Dropped)
		}
	}
	_, err = b.call(ctx, http.MethodDelete, path, nil)
	return file, err
}

// firstByte notes the moment of the first write, and counts the bytes.
type firstByte struct {
	to    io.Writer
	at    time.Time
	bytes int64
}

func (f *firstByte) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	f.bytes += int64(len(p))
	return f.to.Write(p)
}
