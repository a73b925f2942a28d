package supervise

import (
	"slices"
	"strings"
	"testing"
)

// A child keeps the first 4 KiB of its arguments. A server has any number of children.
func TestLongArguments(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	script := []string{"-c", "exec sleep 1000", "sh"}
	for _, tt := range []struct {
		args []string
		most int
	}{
		{slices.Repeat([]string{strings.Repeat("ä", 60_000)}, 14), 4},
		{make([]string, 10_000), 300},
	} {
		c := start(t, g, Spec{Path: "sh", Args: slices.Concat(script, tt.args)})
		args := c.Info().Args
		size := 0
		for _, arg := range args {
			size += len(arg)
		}
		if size > 4<<10 || len(args) > tt.most || !slices.Equal(args[:3], script) {
			t.Errorf("%d arguments of %d bytes are kept: %.100q", len(args), size, args)
		}
		if last := args[len(args)-1]; !strings.HasSuffix(last, "…") || strings.Trim(last, "ä…") != "" {
			t.Errorf("the last argument is %.20q...%q", last, last[max(0, len(last)-5):])
		}
		if c.command.argv != nil || c.command.env != nil {
			t.Error("all arguments or the environment are kept")
		}
	}
}
