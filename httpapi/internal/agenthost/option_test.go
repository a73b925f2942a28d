package agenthost

import (
	"testing"

	"github.com/deskhand/deskhand/agents"
)

// TestChosenOption: an answer never chooses another option than the one that it names.
func TestChosenOption(t *testing.T) {
	t.Parallel()
	options := []agents.Option{
		{ID: "always", Name: "Once"}, {ID: "once", Name: "Allow"}, {ID: "ALLOW", Name: "Always allow"},
		{ID: "Reject", Name: "Allow all"}, {ID: "no", Name: "Reject"},
		{ID: "a", Name: "Same"}, {ID: "b", Name: "same"}, {ID: "c", Name: "same"},
	}
	for answer, want := range map[string]string{
		"once": "once", "Once": "always", "ONCE": "always", "Allow": "once", "ALLOW": "ALLOW", "always allow": "ALLOW",
		"Reject": "", "Same": "a", "same": "", "SAME": "", "a": "a", "b": "b", "other": "",
	} {
		if got, err := ChosenOption(options, answer); got != want || (err == nil) != (want != "") {
			t.Errorf("%q chooses %q, %v; want %q", answer, got, err, want)
		}
	}
}
