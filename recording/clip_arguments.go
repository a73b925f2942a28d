package recording

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording/timeline"
)

// The files of a clip, by descriptors that ffmpeg and ffprobe inherit.
const (
	clipInput  = "/proc/self/fd/3"
	clipOutput = "/proc/self/fd/4"
)

// rounding is more than the rounding of times in ffprobe's output.
const rounding = time.Millisecond

// videoPacket is a picture in a file.
type videoPacket struct {
	at  time.Duration
	key bool
}

// clipPlan describes how to make a clip.
type clipPlan struct {
	timeline.Span
	first  time.Duration // of the picture that is visible at From
	copies bool          // without encoding
}

// plan determines the first picture of a clip, and whether the pictures can be copied.
func (s *Store) plan(ctx context.Context, ffprobe string, video *os.File, span timeline.Span, frame time.Duration) (clipPlan, error) {
	args := []string{
		"-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts_time,flags", "-of", "csv=p=0",
		"-read_intervals", seconds(span.From) + "%" + seconds(span.From+frame+2*rounding), clipInput,
	}
	out, err := run(ctx, s.group, supervise.Spec{Path: ffprobe, Args: args, ExtraFiles: []*os.File{video}})
	if err != nil {
		return clipPlan{}, fmt.Errorf("clip: %w: %w", ErrEncoder, err)
	}
	packets := parsePackets(out)
	if len(packets) == 0 {
		return clipPlan{}, fmt.Errorf("clip: %w: there is no video at %v", ErrEncoder, span.From)
	}
	return planClip(packets, span, frame), nil
}

// parsePackets reads ffprobe's lines, such as "6.021354,K_".
func parsePackets(text string) []videoPacket {
	var list []videoPacket
	for line := range strings.Lines(text) {
		at, flags, ok := strings.Cut(strings.TrimSpace(line), ",")
		f, err := strconv.ParseFloat(at, 64)
		if ok && err == nil && math.Abs(f) < 1e9 {
			list = append(list, videoPacket{time.Duration(f * float64(time.Second)), strings.HasPrefix(flags, "K")})
		}
	}
	return list
}

// planClip plans a clip with the pictures around From, at least one, in the order of time.
func planClip(packets []videoPacket, span timeline.Span, frame time.Duration) clipPlan {
	shown := packets[0]
	for _, p := range packets {
		switch {
		case p.at <= span.From+rounding:
			shown = p
		case p.key && !shown.key && p.at <= span.From+frame+rounding && p.at < span.To:
			return clipPlan{timeline.Span{From: p.at, To: span.To}, p.at, true}
		}
	}
	return clipPlan{span, shown.at, shown.key}
}

// arguments returns the arguments of ffmpeg. There are two inputs, because video is read from
// the first picture on and sound from From on. The first picture gets the time zero, and the
// last one ends at To. timing is programs.timing.
func (p clipPlan) arguments(timing string) []string {
	length := seconds(p.To - p.From)
	// With -c copy, -ss seeks to the key picture at or before a time, and -t counts from
	// there. Otherwise -ss seeks to the first picture at or after the time.
	start, most := p.first+rounding, p.To-p.first-rounding
	if !p.copies {
		start, most = max(0, p.first-rounding), p.To-p.first
	}
	early := seconds(p.From - start)
	args := []string{
		"-hide_banner", "-nostdin", "-loglevel", "error", "-y",
		"-seek_timestamp", "1", "-ss", seconds(start), "-t", seconds(max(most-rounding/2, rounding)), "-i", clipInput,
		"-seek_timestamp", "1", "-ss", seconds(p.From), "-t", length, "-i", clipInput,
		"-map", "0:v:0", "-map", "1:a:0?", "-map_metadata", "-1", "-map_chapters", "-1",
	}
	left := "duration=max(1\\," + length + "/TB-PTS)"
	if p.copies {
		shifted := "max(PTS-(" + early + ")/TB\\,0)"
		args = append(args, "-c", "copy", "-copypriorss:a", "0", "-avoid_negative_ts", "disabled",
			"-bsf:v", "setts=ts="+shifted+":"+strings.ReplaceAll(left, "PTS", shifted))
	} else {
		args = append(args, "-vf", "setpts=max(PTS-("+early+")/TB\\,0)", timing, "passthrough", "-enc_time_base", "1:90000",
			"-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p", "-bf", "0", "-threads", "2")
		args = append(args, colours()...)
		args = append(args, "-c:a", "aac", "-b:a", "128k", "-bsf:v", "setts="+left)
	}
	return append(args, "-movflags", "+faststart", "-f", "mp4", clipOutput)
}

// seconds formats a time for ffmpeg.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 6, 64)
}
