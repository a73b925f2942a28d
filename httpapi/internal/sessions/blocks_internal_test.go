package sessions

import (
	"strings"
	"testing"
)

// A message is no longer for the agent than it is for the client.
func TestBlocksAreNotEscaped(t *testing.T) {
	t.Parallel()
	in := &sessionMessage{}
	in.Body.Message = strings.Repeat("<&>", 100)
	blocks, err := in.blocks()
	if want := `[{"type":"text","text":"` + in.Body.Message + `"}]`; err != nil || string(blocks) != want {
		t.Errorf("blocks = %s, %v, want %s", blocks, err, want)
	}
}
