package processes

import (
	"strings"
	"testing"

	"github.com/deskhand/deskhand/process"
)

// A list has at most 8 MiB of arguments and directories, and every process.
func TestDescribeAll(t *testing.T) {
	t.Parallel()
	infos := make([]process.Info, 5000)
	for i := range infos {
		infos[i] = process.Info{ID: "proc_1", Command: "sh", Args: []string{"-c", strings.Repeat("x", 3000)}, Dir: "/" + strings.Repeat("d", 1000), Running: true}
	}
	size := 0
	for _, p := range describeAll(infos) {
		if p.ID == "" || p.Command != "sh" || p.Args == nil {
			t.Fatalf("a process is %+v", p)
		}
		size += len(p.Cwd) + len(strings.Join(p.Args, ""))
	}
	if size > 8<<20 || size < 8<<20-5000 {
		t.Errorf("the list has %d bytes of arguments and directories", size)
	}
}
