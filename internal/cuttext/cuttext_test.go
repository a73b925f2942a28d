package cuttext_test

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/deskhand/deskhand/internal/cuttext"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"abcd", 0, ""}, {"aéé", 3, "aé"}, {"aéé", 4, "aé"}, {"é", 1, ""}, {"\xffabc", 3, "ab"},
	} {
		if got := cuttext.Cut(tt.text, tt.most); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
	short := strings.Repeat("x", 100)
	if unsafe.StringData(cuttext.Cut(short, 100)) != unsafe.StringData(short) {
		t.Error("a short text was copied")
	}
}

// What was cut off does not stay in memory.
func TestCutKeepsNothingElse(t *testing.T) { //nolint:paralleltest // it measures the heap
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) //nolint:gosec // it fits
	}
	const texts = 64
	var kept []string
	before := heap()
	for range texts {
		kept = append(kept, cuttext.Cut(strings.Repeat("x", 1<<20), 100))
	}
	if got := heap() - before; got > 1<<20 {
		t.Errorf("%d texts of 100 bytes keep %d bytes", texts, got)
	}
	runtime.KeepAlive(kept)
}
