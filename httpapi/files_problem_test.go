package httpapi

import (
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/configuration"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// What is wrong with the disk is told alike by whoever needs one, and its title
// fits its status.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&filesystem.Error{Op: "write", Path: "/a", Kind: filesystem.ErrNoSpace, Err: syscall.ENOSPC},
		fmt.Errorf("start: %w", recording.ErrNoSpace),
		agenthost.Names{Session: "srv", Agent: "mock"}.Explain(fmt.Errorf("commit: %w", eventlog.ErrFull)),
		rest.Group{Problem: configuration.Problem}.ProblemOf(&fs.PathError{Op: "write", Path: "/a", Err: syscall.EDQUOT}, rest.Internal),
	} {
		p := problemOf(err, rest.Internal)
		if p.Status != http.StatusInsufficientStorage || p.Title != http.StatusText(p.Status) || p.Code != "stream_error" {
			t.Errorf("%v = %+v", err, p)
		}
	}
}
