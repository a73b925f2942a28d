package vp8screen

import (
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

func requireFFmpeg(tb testing.TB) {
	tb.Helper()
	testx11.Require(tb, "ffmpeg")
}
