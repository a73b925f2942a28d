// Package guardian makes a program that imports it able to be its own guardian:
// started as [supervise.StartGuardian] does, such a program is nothing else, and
// ends with that.
//
// It happens while packages are initialized, before those which the guardian
// does not need, so that it takes less than 3 MiB of memory of its own. Only
// cmd/deskhand imports this package: a program that embeds desktops is never run
// a second time.
package guardian

import (
	"os"

	"github.com/deskhand/deskhand/internal/supervise"
)

func init() { //nolint:gochecknoinits // see above
	if len(os.Args) == 0 || os.Args[0] != supervise.GuardianName {
		return
	}
	if err := supervise.RunGuardian(os.Args); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
