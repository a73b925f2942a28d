package webrtc

import (
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// TestLimitVideo checks that the lowest limits of the viewers count, until they are lifted or
// their viewer leaves.
func TestLimitVideo(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	type rates struct{ frames, bits int }
	has := func(what string, want rates) {
		t.Helper()
		until(t, what, func() bool { st := s.Status(); return rates{st.FrameRate, st.Target} == want })
	}
	one, two := watch(t, s, ViewerOptions{}), watch(t, s, ViewerOptions{})
	one.next("the first one", picture.key)
	two.next("the first one", picture.key)
	has("there is no limit", rates{DefaultFrameRate, DefaultBitrate})
	one.send("signal/video", videoLimit{FrameRate: 10})
	has("the limit of the first", rates{10, DefaultBitrate})
	two.send("signal/video", videoLimit{FrameRate: 5, Bitrate: 2_000_000})
	has("the lower limits of the second", rates{5, 2_000_000})
	two.send("signal/video", videoLimit{FrameRate: -1, Bitrate: -1}) // is refused
	two.send("signal/video", videoLimit{FrameRate: 500, Bitrate: 1})
	has("limits that are out of range", rates{10, DefaultMinBitrate})
	two.leave()
	has("the second has left", rates{10, DefaultBitrate})
	one.send("signal/video", videoLimit{})
	has("the limit is lifted", rates{DefaultFrameRate, DefaultBitrate})
}
