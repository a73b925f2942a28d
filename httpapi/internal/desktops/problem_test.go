package desktops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestErrorsOfCalls has the errors of a desktop.
func TestErrorsOfCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		other  rest.Kind
		status int
		code   string
		detail string
	}{
		{&desktop.InvalidError{Field: "key", Reason: `"zz" is no key`}, inputFailed, 400, "desktop_invalid_action", `key "zz" is no key`},
		{&desktop.InvalidError{Field: "Delay", Reason: "must be small"}, inputFailed, 400, "desktop_invalid_action", "delayMs must be small"},
		{&desktop.InvalidError{Field: "MaxSize", Reason: "must be small"}, runtimeFailed, 400, "desktop_invalid_action", "maxSize must be small"},
		{&desktop.DeadlineError{Op: "type text", After: 5 * time.Second, Done: "4 of 9"}, inputFailed, 504, "timeout", "not done after 5s (4 of 9)"},
		{fmt.Errorf("click: %w", context.DeadlineExceeded), inputFailed, 504, "timeout", "timeout"},
		{fmt.Errorf("click: %w", desktop.ErrClosed), inputFailed, 409, "desktop_runtime_inactive", "start"},
		{fmt.Errorf("click: %w", desktop.ErrRestarting), inputFailed, 503, "desktop_runtime_failed", "try again"},
		{fmt.Errorf("window 9: %w", desktop.ErrWindowNotFound), runtimeFailed, 404, "window_not_found", "Window 9"},
		{desktop.ErrNoFocusedWindow, runtimeFailed, 404, "no_focused_window", "No window currently has focus"},
		{desktop.ErrNoClipboardContent, inputFailed, 406, "not_acceptable", "no image"},
		{desktop.ErrUnsupported, inputFailed, 501, "desktop_unsupported_platform", "Not supported"},
		{errors.New("get image: BadMatch"), screenshotFailed, 502, "desktop_screenshot_failed", "Get image: BadMatch"},
		{errors.New("send key: BadValue"), inputFailed, 502, "desktop_input_failed", "Send key"},
		{errors.New("open /etc/secret: no"), rest.Internal, 500, "stream_error", "X-Request-Id"},
		{fmt.Errorf("policy: %w", rest.PermissionDenied.Problem("not while the human types")), inputFailed, 403, "permission_denied", "not while"},
	} {
		p := rest.Group{Problem: Problem}.ProblemOf(tc.err, tc.other)
		if p.Status != tc.status || p.Code != tc.code || !strings.Contains(p.Detail, tc.detail) {
			t.Errorf("%v: got %d %s %q, want %d %s with %q", tc.err, p.Status, p.Code, p.Detail, tc.status, tc.code, tc.detail)
		}
		if tc.other == rest.Internal && strings.Contains(p.Detail, "secret") {
			t.Errorf("the error leaks: %q", p.Detail)
		}
	}
}
