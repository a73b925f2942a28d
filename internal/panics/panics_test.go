package panics_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/panics"
)

func TestCatch(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	want := errors.New("failed")
	if err := panics.Catch(log, "work", func() error { return want }); err != want || text.Len() > 0 {
		t.Errorf("%v, and the log has %q", err, &text)
	}
	if err := panics.Catch(log, "work", func() error { panic("ouch") }); err != panics.Err {
		t.Errorf("the error of a panic is %v", err)
	}
	for _, part := range []string{"op=work", "panic=ouch", "panics_test.TestCatch"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in the log: %s", part, &text)
		}
	}
}
