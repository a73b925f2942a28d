package acp

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/panics"
)

// TestCallPanics: a panic of a call that outlives its request is an error of the answer.
func TestCallPanics(t *testing.T) {
	t.Parallel()
	a := &Area{Group: rest.Group{API: new(rest.API)}, Config: Config{Host: agenthost.New(agenthost.Config{}), Logger: slog.New(slog.DiscardHandler)}}
	if err := a.await(func() error { panic("ouch") }); !errors.Is(err, panics.Err) {
		t.Errorf("%v, want %v", err, panics.Err)
	}
}
