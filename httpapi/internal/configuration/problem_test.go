package configuration

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/configfile"
)

// TestConfigProblems has the errors that are hard to bring about.
func TestConfigProblems(t *testing.T) {
	t.Parallel()
	of := func(err error) error { return fmt.Errorf("/a: %w", err) }
	for _, tc := range []struct {
		err    error
		status int
	}{
		{of(configfile.ErrLocked), 504},
		{of(configfile.ErrTooLarge), 413},
		{of(&fs.PathError{Op: "open", Path: "/a", Err: syscall.EACCES}), 403},
		{of(&fs.PathError{Op: "mkdir", Path: "/a", Err: syscall.EROFS}), 403},
		{of(&fs.PathError{Op: "open", Path: "/a", Err: syscall.ELOOP}), 400},
		{of(&fs.PathError{Op: "write", Path: "/a", Err: syscall.ENOSPC}), 507},
		{of(&configfile.WrittenError{Path: "/a", Err: syscall.ENOSPC}), 507},
		{of(&configfile.WrittenError{Path: "/a", Err: syscall.EIO}), 502},
	} {
		p := (rest.Group{Problem: Problem}).ProblemOf(tc.err, rest.Internal)
		if p.Status != tc.status {
			t.Errorf("%v = %d %s, want %d", tc.err, p.Status, p.Detail, tc.status)
		}
		if _, written := errors.AsType[*configfile.WrittenError](tc.err); written && !strings.Contains(p.Detail, "has changed") {
			t.Errorf("%v = %q, want what has changed", tc.err, p.Detail)
		}
	}
	if err := Problem(nil); err != nil {
		t.Errorf("no error = %v", err)
	}
}
