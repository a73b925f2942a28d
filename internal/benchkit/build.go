package benchkit

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Build builds deskhand as make build does, into the file binary. The working
// directory must be in the module.
func Build(ctx context.Context, binary string) error {
	var described bytes.Buffer
	args := []string{"describe", "--tags", "--always", "--dirty"}
	if err := sdktest.Run(ctx, supervise.Spec{Path: "git", Args: args, Stdout: &described, Stderr: io.Discard}); err != nil {
		described.Reset() // not a git checkout
	}
	return sdktest.Run(ctx, supervise.Spec{
		Path: "go",
		Args: []string{
			"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + strings.TrimSpace(described.String()),
			"-o", binary, "github.com/deskhand/deskhand/cmd/deskhand",
		},
		Env: append(os.Environ(), "CGO_ENABLED=0"),
	})
}

// Version returns what a program prints about its version when it is given arg,
// on one line.
func Version(ctx context.Context, binary, arg string) (string, error) {
	var out bytes.Buffer
	err := sdktest.Run(ctx, supervise.Spec{Path: binary, Args: []string{arg}, Stdout: &out, Stderr: io.Discard})
	return strings.Join(strings.Fields(out.String()), " "), err
}
