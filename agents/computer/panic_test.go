package computer_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/internal/testlog"
)

// TestPanic: a tool that panics is answered with an error, and the server lives.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	var broken struct{ computer.Desktop } // whose methods panic
	a := connect(t, broken, computer.Config{
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		Browser: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { panic("of the browser") },
	})
	a.refuses("key", args{"text": "Return"}, "panic")
	a.refuses("left_click", args{}, "panic") // not in the list of tools
	a.refuses("browser", args{"action": "tabs"}, "panic")
	for _, part := range []string{"nil pointer", "panic_test.go", "of the browser"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%q is not in the log", part)
		}
	}
}
