package webrtc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeFFmpeg makes a script the only ffmpeg until the test ends.
func fakeFFmpeg(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "ffmpeg"), []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // it must run
			t.Fatal(err)
		}
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir)
	if script != "" {
		t.Setenv("PATH", dir+":"+path)
	}
	foundPrograms.Clear()
	t.Cleanup(foundPrograms.Clear)
}

// TestStartContext checks that the context bounds Start.
func TestStartContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, nil, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start with a canceled context: %v, want context.Canceled", err)
	}

	fakeFFmpeg(t, "exec sleep 600")
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := Start(ctx, nil, Config{Codec: H264}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start while ffmpeg hangs: %v, want context.DeadlineExceeded", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Start took %v after its deadline", took)
	}
}

// TestStartWithoutEncoder checks that Start reports a codec that ffmpeg cannot encode.
func TestStartWithoutEncoder(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
	}{
		"no ffmpeg":          {"", "needs ffmpeg"},
		"no working encoder": {"exit 1", "no working encoder"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeFFmpeg(t, c.script)
			for _, codec := range []Codec{VP9, H264} {
				_, err := Start(t.Context(), nil, Config{Codec: codec})
				if !errors.Is(err, ErrCodec) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Start with %s: %v, want ErrCodec that says %q", codec, err, c.want)
				}
			}
		})
	}
}

// TestInvalidConfig checks the errors of Start about its Config.
func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{FrameRate: 61}, "FrameRate must be between 1 and 60"},
		{Config{FrameRate: -1}, "FrameRate must be between 1 and 60"},
		{Config{Bitrate: 500_000}, "must not be less than MinBitrate"},
		{Config{MaxViewers: -1}, "MaxViewers must be positive"},
		{Config{MinBitrate: -1}, "must not be less than MinBitrate"},
		{Config{Codec: "av1"}, `"av1"; use vp8, vp9 or h264`},
		{Config{AudioCodec: "mp3"}, `"mp3"; use opus or g722`},
	} {
		if _, err := Start(t.Context(), nil, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Start with %+v: %v, want an error that says %q", c.cfg, err, c.want)
		}
	}
}
