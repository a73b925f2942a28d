package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestFileProblems has every error of package filesystem.
func TestFileProblems(t *testing.T) {
	t.Parallel()
	of := func(op string, kind, cause error) error {
		return fmt.Errorf("wrapped: %w", &filesystem.Error{Op: op, Path: "/a", Reason: "it failed", Remedy: "do it", Kind: kind, Err: cause})
	}
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{of("stat", fs.ErrNotExist, syscall.ENOENT), 404, "not_found"},
		{of("stat", fs.ErrPermission, syscall.EACCES), 403, "permission_denied"},
		{of("write", fs.ErrPermission, syscall.EROFS), 403, "permission_denied"},
		{of("write", filesystem.ErrOutside, nil), 403, "permission_denied"},
		{of("remove", filesystem.ErrRoot, nil), 403, "permission_denied"},
		{of("move", fs.ErrExist, syscall.EEXIST), 409, "conflict"},
		{of("remove", filesystem.ErrNotEmpty, syscall.ENOTEMPTY), 409, "conflict"},
		{of("remove", filesystem.ErrBusy, syscall.EBUSY), 409, "conflict"},
		{of("mkdir", filesystem.ErrNotDirectory, syscall.ENOTDIR), 409, "conflict"},
		{of("list", filesystem.ErrNotDirectory, syscall.ENOTDIR), 400, "invalid_request"},
		{of("open", filesystem.ErrNotFile, syscall.EISDIR), 400, "invalid_request"},
		{of("open", filesystem.ErrEndless, nil), 400, "invalid_request"},
		{of("open", filesystem.ErrTooLarge, nil), 400, "invalid_request"},
		{of("open", filesystem.ErrInvalidPath, syscall.ELOOP), 400, "invalid_request"},
		{of("open", filesystem.ErrUnknownRoot, nil), 400, "invalid_request"},
		{of("move", filesystem.ErrIntoItself, nil), 400, "invalid_request"},
		{of("search", filesystem.ErrPattern, nil), 400, "invalid_request"},
		{of("extract", filesystem.ErrArchive, io.ErrUnexpectedEOF), 400, "invalid_request"},
		{of("extract", filesystem.ErrTooLarge, nil), 413, "invalid_request"},
		{of("write", filesystem.ErrChanged, nil), 412, "conflict"},
		{of("write", filesystem.ErrNoSpace, syscall.ENOSPC), 507, "stream_error"},
		{of("write", filesystem.ErrClosed, nil), 503, "stream_error"},
		{of("write", nil, syscall.EIO), 500, "stream_error"},
		{of("write", nil, rest.TooLarge(10)), 413, "invalid_request"},
		{of("write", nil, rest.RequestTimeout.Problem("late")), 408, "invalid_request"},
	} {
		p := rest.Group{Problem: Problem}.ProblemOf(tc.err, rest.Internal)
		if p.Status != tc.status || p.Code != tc.code {
			t.Errorf("%v = %d %s, want %d %s", tc.err, p.Status, p.Code, tc.status, tc.code)
		}
		if tc.status == http.StatusInsufficientStorage && p.Title != http.StatusText(tc.status) {
			t.Errorf("%v: title %q", tc.err, p.Title)
		}
		inner := (*rest.Problem)(nil)
		if !errors.As(tc.err, &inner) && tc.status != 503 && !strings.Contains(p.Detail, "/a") {
			t.Errorf("%v: %q does not name the path", tc.err, p.Detail)
		}
	}
	if p := Problem(context.Canceled); p != nil {
		t.Errorf("an error of another package = %v", p)
	}
}
