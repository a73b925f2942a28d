package recording

import (
	"fmt"
	"runtime"
	"strconv"
	"time"
)

// quality has settings of x264. Every picture gets about the same quantiser (qcomp=1): with
// x264's default, simple pictures such as a scrolling page get bits without a visible effect,
// and dense text too few. Within a picture flat areas get more bits than busy ones (aq-mode).
// Features that are slow on dense text, such as arithmetic coding, are off.
type quality struct {
	crf  string // constant rate factor: lower is better
	more string // further settings
}

// qualities were measured with random text that scrolls, and with web pages.
var qualities = map[Quality]quality{
	QualityLow:    {crf: "36"},
	QualityMedium: {crf: "30.5"},
	QualityHigh:   {crf: "23", more: ":partitions=i4x4"},
}

const (
	// keyInterval is the time between two key pictures, in seconds with changes. Key
	// pictures are large.
	keyInterval = 10

	// fragmentMicros is the length of a fragment of the file.
	fragmentMicros = 500_000

	// oneThread is a number of pixels a second that one core encodes with ease. More
	// threads need more work for the same picture.
	oneThread = 100_000_000
)

// encoding describes the video that an ffmpeg makes.
type encoding struct {
	width, height, fps int
	quality            Quality
	sound              bool
}

// arguments returns the arguments of ffmpeg: it reads the stream of streamHeader and writes a
// fragmented MP4 file. Pictures keep their times (vfr). With zerolatency and one thread for
// reading, ffmpeg does not hold a picture back until the next one arrives; -fflags nobuffer
// would lose the first one.
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

// colours returns the arguments for the colours that internal/i420 makes.
func colours() []string {
	return []string{"-colorspace", "smpte170m", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"}
}

// x264 returns the settings that ffmpeg has no options for.
func (e encoding) x264() string {
	threads := 1
	if e.width*e.height*e.fps > oneThread {
		threads = min(runtime.NumCPU(), 4)
	}
	return fmt.Sprintf("threads=%d:scenecut=0:qcomp=1:aq-mode=1%s", threads, qualities[e.quality].more)
}

// probeArguments returns the arguments with which ffprobe decodes the first picture.
func probeArguments(path string) []string {
	return []string{
		"-hide_banner", "-v", "error", "-select_streams", "v:0", "-read_intervals", "%+#1",
		"-show_entries", "frame=width,height", "-of", "csv=p=0", "--", path,
	}
}

// remuxArguments returns the arguments with which ffmpeg copies a video of a length to one
// with its index at the start, and with chapters if the path of a list is given. setts
// extends the last picture to the end.
func remuxArguments(from, chapters, to string, length time.Duration) []string {
	args := []string{"-hide_banner", "-nostdin", "-loglevel", "error", "-y", "-i", "file:" + from}
	if chapters != "" {
		args = append(args, "-f", "ffmetadata", "-i", "file:"+chapters, "-map_metadata", "1", "-map_chapters", "1")
	}
	return append(args, "-map", "0:v", "-map", "0:a?", "-c", "copy", "-bsf:v", "setts=duration=max(1\\,"+seconds(length)+"/TB-PTS)",
		"-movflags", "+faststart", "-f", "mp4", "file:"+to)
}
