package httpapi

import (
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/configuration"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// TestNoSpace expects the same problem of a full disk from each area.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		rest.Group{Problem: desktops.Problem}.ProblemOf(&fs.PathError{Op: "mkdir", Path: "/a", Err: syscall.ENOSPC}, rest.Internal),
		rest.Group{Problem: desktops.Problem}.ProblemOf(fmt.Errorf("start: %w", recording.ErrNoSpace), rest.Internal),
		agenthost.Names{Session: "srv", Agent: "mock"}.Explain(fmt.Errorf("commit: %w", eventlog.ErrFull)),
		rest.Group{Problem: configuration.Problem}.ProblemOf(&fs.PathError{Op: "write", Path: "/a", Err: syscall.EDQUOT}, rest.Internal),
	} {
		p := rest.Group{}.ProblemOf(err, rest.Internal)
		if p.Status != http.StatusInsufficientStorage || p.Title != http.StatusText(p.Status) || p.Code != "stream_error" {
			t.Errorf("%v = %+v", err, p)
		}
	}
}
