package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/png" // screenshots
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

const (
	recordedRate = 30 // pictures a second
	probes       = 5  // pictures of a scene that are compared

	// settleTime is for the start of the encoder, which is not measured.
	settleTime = time.Second
)

// recordings are what was measured of scenes that were recorded, by the servers.
type recordings struct {
	length time.Duration // of each
	scenes []recordedScene
}

type recordedScene struct {
	scene
	of [2]recordedBy
}

// recordedBy is a scene's recording by one server.
type recordedBy struct {
	processor float64       // of a core: what all processes use more than without
	bytes     int64         // of the file
	ssim      float64       // of the probes, in the mean
	lost      float64       // share of the pictures; negative: the server does not tell
	stop      time.Duration // from asking for the end to having the file's first bytes
	seconds   float64       // that the video has
}

// recordScenes records each scene with each server, once. Only the processor time that
// is more than without a recording counts, so that what draws the scene does not.
func (b *bench) recordScenes(ctx context.Context) error {
	if b.recorded != nil || b.record == 0 {
		return nil
	}
	b.recorded = &recordings{length: b.record}
	for _, sc := range scenes {
		if !b.rows.MatchString(sc.key) {
			continue
		}
		done := recordedScene{scene: sc}
		for k, bed := range b.beds {
			b.tell("recording: %s, with %s", sc.title, bed.name)
			var err error
			if done.of[k], err = bed.recordScene(ctx, sc, b.record); err != nil {
				return fmt.Errorf("recording of %s: %s: %w", sc.title, bed.name, err)
			}
		}
		b.recorded.scenes = append(b.recorded.scenes, done)
	}
	return nil
}

func (b *bed) recordScene(ctx context.Context, sc scene, length time.Duration) (r recordedBy, err error) {
	stage, err := sc.open(ctx, b)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stage.close(ctx)) }()
	without, err := b.watchProcessor(ctx, length/2, nil)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	if _, err := b.call(ctx, http.MethodPost, "/v1/desktop/recording/start", map[string]any{"fps": recordedRate}); err != nil {
		return r, err
	}
	if err := pause(ctx, settleTime); err != nil {
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
	file, err := b.endRecording(ctx, &r)
	if err != nil {
		return r, err
	}
	defer os.Remove(file)
	for _, shot := range shots {
		ssim, err := shot.compare(ctx, file)
		if err != nil {
			return r, err
		}
		r.ssim += ssim / float64(len(shots))
	}
	r.seconds, err = videoSeconds(ctx, file)
	return r, err
}

// watchProcessor returns how much of a core all of the server's processes use in
// a time. In between, probe is called probes times, if it is not nil; what the
// server uses meanwhile does not count.
func (b *bed) watchProcessor(ctx context.Context, length time.Duration, probe func(context.Context) error) (float64, error) {
	n := 1
	if probe != nil {
		n = probes
	}
	var used, watched time.Duration
	for range n {
		begin := time.Now()
		before, err := benchkit.TreeProcessorTime(b.server.PID)
		if err != nil {
			return 0, err
		}
		if err := pause(ctx, length/time.Duration(n)); err != nil {
			return 0, err
		}
		after, err := benchkit.TreeProcessorTime(b.server.PID)
		if err != nil {
			return 0, err
		}
		used, watched = used+after-before, watched+time.Since(begin)
		if probe != nil {
			if err := probe(ctx); err != nil {
				return 0, err
			}
		}
	}
	return used.Seconds() / watched.Seconds(), nil
}

// probe is what was on the screen at some moment of a recording.
type probe struct {
	at     time.Duration // since the start was asked for
	screen *image.Gray
}

// probe holds the scene for a moment and looks at it.
func (b *bed) probe(ctx context.Context, s *stage, begun time.Time) (probe, error) {
	if err := s.hold(ctx); err != nil {
		return probe{}, err
	}
	p := probe{at: time.Since(begun)}
	if _, err := b.call(ctx, http.MethodGet, "/v1/desktop/screenshot?format=png", nil); err != nil {
		return p, err
	}
	img, _, err := image.Decode(bytes.NewReader(b.body.Bytes()))
	if err != nil {
		return p, err
	}
	p.screen = gray(img)
	// What is held is on the video for a while, also where pictures are late.
	if err := pause(ctx, 200*time.Millisecond); err != nil {
		return p, err
	}
	return p, s.goOn(ctx)
}

// endRecording ends the recording and downloads it.
func (b *bed) endRecording(ctx context.Context, r *recordedBy) (file string, err error) {
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
	req, err := b.request(ctx, http.MethodGet, path+"/download", nil)
	if err != nil {
		return "", err
	}
	file = filepath.Join(b.server.Home, info.ID+".mp4")
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	first := &firstByte{to: f}
	if err := errors.Join(do(b.http, req, first), f.Close()); err != nil {
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

// firstByte notes when something is written first, and how much in all.
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
