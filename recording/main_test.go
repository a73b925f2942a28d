package recording

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		recordUntilKilled(dir) // this is the child of TestProgramKilled
	}
	// The tests wait more than they compute. The flag -parallel, which is parsed later, overrides
	// this value.
	_ = flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	goleak.VerifyTestMain(m)
}
