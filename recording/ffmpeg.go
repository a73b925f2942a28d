package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// programs are the tools that recordings are made with.
type programs struct {
	ffmpeg, ffprobe string
	timing          string // ffmpeg's option that says what becomes of pictures' times
}

// found remembers what was seen of an ffmpeg, which takes processes to find out.
var found struct {
	sync.Mutex
	tools programs
}

// findPrograms finds what a recording needs, or returns a *MissingError.
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
	out, err := run(ctx, group, p.ffmpeg, "-hide_banner", "-loglevel", "error", "-encoders")
	if err != nil {
		return p, err
	}
	if !strings.Contains(out, " libx264 ") {
		return p, &MissingError{Programs: []string{"libx264 (an encoder of ffmpeg)"}}
	}
	version, err := run(ctx, group, p.ffmpeg, "-version")
	if err != nil {
		return p, err
	}
	p.timing = timingOption(version)
	found.tools = p
	return p, nil
}

// timingOption is what the ffmpeg of that version calls -fps_mode. It was -vsync
// before 5.1.
func timingOption(version string) string {
	var major, minor int
	_, err := fmt.Sscanf(version, "ffmpeg version %d.%d", &major, &minor)
	if err != nil {
		_, err = fmt.Sscanf(version, "ffmpeg version n%d.%d", &major, &minor)
	}
	if err == nil && (major < 5 || major == 5 && minor < 1) {
		return "-vsync"
	}
	return "-fps_mode"
}

// mostOutput is how much of what a program prints is kept.
const mostOutput = 1 << 20

// run runs a program to its end and returns what it printed. When ctx ends, so
// does the program.
func run(ctx context.Context, group *supervise.Group, path string, args ...string) (string, error) {
	var out limitedBuffer
	child, err := group.Start(supervise.Spec{Path: path, Args: args, Stdout: &out})
	if err != nil {
		if errors.Is(err, supervise.ErrClosed) {
			err = ErrClosed
		}
		return "", err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		err := child.StopWithin(context.Background(), time.Second)
		return "", errors.Join(fmt.Errorf("%s: %w", child.Name(), ctx.Err()), err)
	}
	if child.Exit().Code != 0 {
		return out.String(), errors.New(lastWords(child))
	}
	return out.String(), nil
}

// lastWords says how a program ended, and what it said to that.
func lastWords(child *supervise.Child) string {
	how := fmt.Sprintf("%s: %v", child.Name(), child.Exit())
	if why := lastLines(child.Tail()); why != "" {
		how += ": " + why
	}
	return how
}

// lastLines is the end of a program's messages, short enough for an error.
func lastLines(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s) - 500; n > 0 {
		s = "..." + strings.ToValidUTF8(s[n:], "")
	}
	return s
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct{ strings.Builder }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := mostOutput - b.Len(); room > 0 {
		_, _ = b.Builder.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
