package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testspace"
)

// TestSessionsOnAFullDisk: what is stored can be listed, read and followed, who
// wants to write is told why not, and with space it all goes on.
func TestSessionsOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := testspace.Disk(t, "32m")
	if disk == "" {
		return
	}
	state, folder := filepath.Join(disk, "state"), t.TempDir()
	s := serve(t, Config{StateDir: state})
	s.post(t, "/v1/sessions/full", fmt.Sprintf(`{"agent":"mock","directory":%q}`, folder)).want(t, 200)
	read := s.turn(t, "full", "hello")
	before := read[len(read)-1].Sequence
	s.turn(t, "full", "not read before the disk is full")
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 32<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	message := `{"message":"` + strings.Repeat("more and ", 500) + `"}`
	eventually(t, "the log takes nothing", func() bool {
		return s.post(t, "/v1/sessions/full/messages", message).StatusCode == 507
	})
	if got := s.do(t, call{path: "/v1/sessions"}).want(t, 200).json(t)["sessions"].([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
	var page struct {
		Events  []universalEvent
		HasMore bool
	}
	decode(t, s.do(t, call{path: "/v1/sessions/full/events?limit=3"}).want(t, 200).body, &page)
	if len(page.Events) != 3 || !page.HasMore {
		t.Errorf("%+v", page)
	}
	ended := 0
	s.sse(t, call{path: "/v1/sessions/full/events/sse"}, func(e universalEvent) bool {
		if e.Sequence == before { // all that is stored was sent, and the stream stays
			if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
				t.Error(err)
			}
		}
		if e.Type == "turn.ended" {
			ended++
		}
		return ended == 2
	})
	eventually(t, "it goes on", func() bool { return s.post(t, "/v1/sessions/full/messages", `{"message":"on"}`).StatusCode == 204 })
}
