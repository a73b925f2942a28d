package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestClientGoneIsNoFailure: clients that close their connections do not fill the log.
func TestClientGoneIsNoFailure(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	g := Group{API: &API{log: slog.New(slog.NewTextHandler(&text, nil))}}
	ctx, gone := context.WithCancelCause(t.Context())
	gone(errClientGone)
	g.Fail(ctx, Route{ID: "clip"}, fmt.Errorf("clip: %w", context.Cause(ctx)))
	g.Fail(ctx, Route{ID: "search"}, fmt.Errorf("search: %w", ctx.Err()))
	if text.Len() > 0 {
		t.Errorf("log: %s", text.String())
	}
	g.Fail(t.Context(), Route{ID: "search"}, fmt.Errorf("search: %w", context.Canceled))
	if !strings.Contains(text.String(), "search") {
		t.Errorf("log: %s", text.String())
	}
	g.Fail(ctx, Route{ID: "clip"}, errors.New("the disk has failed"))
	if !strings.Contains(text.String(), "the disk has failed") {
		t.Errorf("log: %s", text.String())
	}
}
