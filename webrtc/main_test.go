package webrtc

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) {
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon")
	goleak.VerifyTestMain(m)
}
