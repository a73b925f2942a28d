package computer_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
)

// TestLargeBrowserAnswer: an answer that no model can read is an error, which says that the action was done.
func TestLargeBrowserAnswer(t *testing.T) {
	t.Parallel()
	size := 1 << 20
	var unused struct{ computer.Desktop }
	a := connect(t, unused, computer.Config{
		Browser: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(strings.Repeat("1", size)), nil
		},
	})
	if text := a.call("browser", args{"action": "evaluate"}).text; len(text) != size {
		t.Errorf("an answer of %d bytes has %d", size, len(text))
	}
	size++
	a.refuses("browser", args{"action": "evaluate"}, "was done, but its answer has 1048577 bytes")
}
