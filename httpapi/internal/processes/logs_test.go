package processes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/deskhand/deskhand/process"
)

// TestAppendLogs reads what appendLogs writes, and checks that it takes little more memory than
// that.
func TestAppendLogs(t *testing.T) {
	t.Parallel()
	var entries []process.Entry
	for i, data := range [][]byte{[]byte("\"first\"\n"), {0, 0xff}, bytes.Repeat([]byte("x"), 1<<20)} {
		entries = append(entries, process.Entry{Sequence: uint64(i) + 1, Stream: process.Stdout, Time: time.UnixMilli(1234), Data: data})
	}
	for n := range len(entries) + 1 {
		text := appendLogs(nil, "proc_7", "combined", entries[:n])
		var body logsBody
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatalf("%.200s: %v", text, err)
		}
		if body.ProcessID != "proc_7" || body.Stream != "combined" || body.Entries == nil || len(body.Entries) != n {
			t.Errorf("%d entries: %.200s", n, text)
		}
		for i, e := range body.Entries {
			want := logEntry{uint64(i) + 1, process.Stdout, 1234, base64.StdEncoding.EncodeToString(entries[i].Data), "base64"}
			if e != want {
				t.Errorf("entry %d: %.200v", i, e)
			}
		}
	}
	if text := appendLogs(nil, "proc_7", "combined", entries); cap(text) > len(text)*11/10 {
		t.Errorf("appendLogs takes %d bytes for %d", cap(text), len(text))
	}
}
