package benchkit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Main calls run until it returns or the program is interrupted, and exits with
// status 1 if it fails. name begins the error message.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Binary returns the absolute path of the given program. If given is empty, it
// builds deskhand as make build does, in dir, and returns that. The working
// directory must be in the module.
func Binary(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	var described bytes.Buffer
	args := []string{"describe", "--tags", "--always", "--dirty"}
	if err := sdktest.Run(ctx, supervise.Spec{Path: "git", Args: args, Stdout: &described, Stderr: io.Discard}); err != nil {
		described.Reset() // not a git checkout
	}
	binary := filepath.Join(dir, "deskhand-binary")
	return binary, sdktest.Run(ctx, supervise.Spec{
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

// Pause waits for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do sends a request and copies the body of the response to w. It returns an
// error if the status is not 2xx.
func Do(c *http.Client, req *http.Request, w io.Writer) error {
	res, err := Open(c, req)
	if err != nil {
		return err
	}
	defer res.Close()
	_, err = io.Copy(w, res)
	return err
}

// Open is like Do but returns the body of the response, which the caller closes.
func Open(c *http.Client, req *http.Request) (io.ReadCloser, error) {
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 2000))
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, res.Status, text)
	}
	return res.Body, nil
}
