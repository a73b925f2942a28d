package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// programs are the tools that make recordings.
type programs struct {
	ffmpeg, ffprobe string
	timing          string // ffmpeg's option for the times of pictures
}

// found caches the properties of an ffmpeg.
var found struct {
	sync.Mutex
	tools programs
}

// findPrograms finds the tools on PATH, or returns a *MissingError.
func findPrograms(ctx context.Context, group *supervise.Group) (programs, error) {
	var p programs
	var missing []string
	for _, want := range []struct {
		name string
		path *string
	}{{"ffmpeg", &p.ffmpeg}, {"ffprobe", &p.ffprobe}} {
		path, err := supervise.LookPath(want.name, os.Environ())
		if err != nil {
			missing = append(missing, want.name)
		}
		*want.path = path
	}
	if len(missing) > 0 {
		return p, &MissingError{Programs: missing}
	}
	found.Lock()
	defer found.Unlock()
	if found.tools.ffmpeg == p.ffmpeg {
		p.timing = found.tools.timing
		return p, nil
	}
	out, err := run(ctx, group, supervise.Spec{Path: p.ffmpeg, Args: []string{"-hide_banner", "-loglevel", "error", "-encoders"}})
	if err != nil {
		return p, err
	}
	if !strings.Contains(out, " libx264 ") {
		return p, &MissingError{Programs: []string{"libx264 (an encoder of ffmpeg)"}}
	}
	version, err := run(ctx, group, supervise.Spec{Path: p.ffmpeg, Args: []string{"-version"}})
	if err != nil {
		return p, err
	}
	p.timing = timingOption(version)
	found.tools = p
	return p, nil
}

// timingOption returns the name of -fps_mode in a version of ffmpeg. It was -vsync before
// 5.1.
func timingOption(version string) string {
	var major, minor int
	number := strings.TrimPrefix(strings.TrimPrefix(version, "ffmpeg version "), "n")
	if _, err := fmt.Sscanf(number, "%d.%d", &major, &minor); err == nil && (major < 5 || major == 5 && minor < 1) {
		return "-vsync"
	}
	return "-fps_mode"
}

// run runs a program to its end, at a lower priority than recordings, and returns its
// output. If ctx ends, it kills the program and returns the cause.
func run(ctx context.Context, group *supervise.Group, spec supervise.Spec) (string, error) {
	var out limitedBuffer
	spec.Stdout, spec.Grace = &out, -1
	child, err := group.Start(spec)
	if err != nil {
		return "", storeError(err)
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, child.PID(), 10)
	select {
	case <-child.Done():
	case <-ctx.Done():
		return "", errors.Join(fmt.Errorf("%s: %w", child.Name(), context.Cause(ctx)), child.Stop(context.Background()))
	}
	if child.Exit().Code != 0 {
		return "", exitError(child)
	}
	return out.String(), nil
}

// storeError returns ErrClosed if a program was not started because the store is closed, and
// err otherwise.
func storeError(err error) error {
	if errors.Is(err, supervise.ErrClosed) {
		return ErrClosed
	}
	return err
}

// exitError returns how a program ended, with the end of its messages.
func exitError(child *supervise.Child) error {
	text := strings.TrimSpace(child.Tail())
	if n := len(text) - 500; n > 0 {
		text = "..." + strings.ToValidUTF8(text[n:], "")
	}
	if text == "" {
		return fmt.Errorf("%s: %v", child.Name(), child.Exit())
	}
	return fmt.Errorf("%s: %v: %s", child.Name(), child.Exit(), text)
}

// maxOutput bounds the output of a program that is kept.
const maxOutput = 1 << 20

// limitedBuffer keeps the beginning of the data that is written to it.
type limitedBuffer struct{ strings.Builder }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		_, _ = b.Builder.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
