package recording

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		recordUntilKilled(dir) // this is the child of TestProgramKilled
	}
	goleak.VerifyTestMain(m)
}
