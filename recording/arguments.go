package recording

import (
	"fmt"
	"runtime"
	"strconv"
	"time"
)

// quality is how x264 is set. Every picture gets about the same quantiser
// (qcomp=1), because with x264's own choice simple pictures, a page that scrolls,
// get bits that nobody sees and dense text too few; within a picture flat areas
// get more than busy ones (aq-mode). All else is left out that takes time on dense
// text, as arithmetic coding does.
type quality struct {
	crf  string // constant rate factor: lower is better
	more string // settings of x264
}

// qualities are measured with screens: random text that scrolls, and web pages.
var qualities = map[Quality]quality{
	QualityLow:    {crf: "36"},
	QualityMedium: {crf: "30.5"},
	QualityHigh:   {crf: "23", more: ":partitions=i4x4"},
}

const (
	// keyInterval is how many seconds of change there are between two key
	// pictures, which are large.
	keyInterval = 10

	// fragmentMicros is how much video one of the file's fragments has.
	fragmentMicros = 500_000

	// oneThread is how many pixels a second one core encodes with ease. With
	// more threads the same picture takes more work.
	oneThread = 100_000_000
)

// encoding is what an ffmpeg is to make of a recording's pictures.
type encoding struct {
	width, height, fps int
	quality            Quality
	sound              bool
}

// arguments is ffmpeg's command line: it reads the stream of streamHeader and
// writes a fragmented MP4 file. Pictures keep their times (vfr). No picture is held back until the next one comes,
// hence zerolatency and one thread for reading; -fflags nobuffer would lose the
// first one.
func (e encoding) arguments(tools programs) []string {
	q := qualities[e.quality]
	args := []string{
		"-hide_banner", "-nostdin", "-loglevel", "error",
		"-threads", "1", "-probesize", "32", "-analyzeduration", "0", "-fpsprobesize", "0",
		"-f", "matroska", "-i", "pipe:0",
		"-map", "0:v:0", tools.timing, "vfr", "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-crf", q.crf, "-pix_fmt", "yuv420p",
		"-g", strconv.Itoa(keyInterval * e.fps), "-bf", "0", "-x264-params", e.x264(),
	}
	args = append(args, colours()...)
	if e.sound {
		args = append(args, "-map", "0:a:0", "-c:a", "aac", "-b:a", "128k", "-max_interleave_delta", "200000")
	}
	return append(args, "-map_metadata", "-1", "-f", "mp4", "-movflags", "+empty_moov+default_base_moof",
		"-frag_duration", strconv.Itoa(fragmentMicros), "-flush_packets", "1", "pipe:1")
}

// colours has a video say how its colours are meant: as internal/i420 makes them.
func colours() []string {
	return []string{"-colorspace", "smpte170m", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"}
}

// x264 are the settings that ffmpeg has no names for.
func (e encoding) x264() string {
	threads := 1
	if e.width*e.height*e.fps > oneThread {
		threads = min(runtime.NumCPU(), 4)
	}
	return fmt.Sprintf("threads=%d:scenecut=0:qcomp=1:aq-mode=1%s", threads, qualities[e.quality].more)
}

// probeArguments has ffprobe decode the first picture.
func probeArguments(path string) []string {
	return []string{
		"-hide_banner", "-v", "error", "-select_streams", "v:0", "-read_intervals", "%+#1",
		"-show_entries", "frame=width,height", "-of", "json", "--", path,
	}
}

// remuxArguments has ffmpeg copy a video of that length to one that has its index
// in front. An empty chapters is none. Without setts the last picture would be as
// short as any.
func remuxArguments(from, chapters, to string, length time.Duration) []string {
	args := []string{"-hide_banner", "-nostdin", "-loglevel", "error", "-y", "-i", "file:" + from}
	if chapters != "" {
		args = append(args, "-f", "ffmetadata", "-i", "file:"+chapters, "-map_metadata", "1", "-map_chapters", "1")
	}
	return append(args, "-map", "0:v", "-map", "0:a?", "-c", "copy", "-bsf:v", "setts=duration=max(1\\,"+seconds(length)+"/TB-PTS)",
		"-movflags", "+faststart", "-f", "mp4", "file:"+to)
}
