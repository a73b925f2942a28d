package rest

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/deskhand/deskhand/internal/panics"
)

// TestLongPanics: a panic of work that outlives its request is an error of the answer.
func TestLongPanics(t *testing.T) {
	t.Parallel()
	a := &API{log: slog.New(slog.DiscardHandler)}
	start := func(f func()) error { go f(); return nil }
	if _, err := a.AnswerLong(t.Context(), start, func() ([]byte, error) { panic("ouch") }, nil); !errors.Is(err, panics.Err) {
		t.Errorf("%v, want %v", err, panics.Err)
	}
}
