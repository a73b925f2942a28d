// Package guardian lets a program that imports it be its own guardian. If the
// program was started by [supervise.StartGuardian], it runs the guardian during
// initialization and exits when the guardian ends.
//
// The guardian runs before packages that it does not need are initialized, so
// that it takes less than 3 MiB of memory of its own. Only cmd/deskhand imports
// this package, so a program that embeds desktops has no guardian.
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
