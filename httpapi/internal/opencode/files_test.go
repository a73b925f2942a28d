package opencode

import (
	"strings"
	"testing"
	"time"
)

// TestSpan finds the shortest part of a text that has the characters of a query.
func TestSpan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, query string
		want        int
	}{
		{"abc", "", 0}, {"abc", "ac", 3}, {"axxb-ab", "ab", 2}, {"ab-axxb", "ab", 2}, {"aab", "ab", 2}, {"abcabc", "cab", 3},
		{"aXbXc-abXc", "abc", 4}, {"abc", "abcd", -1}, {"", "a", -1}, {"cba", "abc", -1}, {"aaaa", "aa", 2},
	} {
		if got, ok := span(tt.text, tt.query); got != tt.want || ok != (tt.want >= 0) {
			t.Errorf("span(%q, %q) = %d, %v, want %d", tt.text, tt.query, got, ok, tt.want)
		}
	}
	// The time does not grow with the square of the length: here it would be hours.
	long := strings.Repeat("a", 8<<20) + "c"
	began := time.Now()
	if got, _ := span(long, "ac"); got != 2 || time.Since(began) > time.Minute {
		t.Errorf("%d after %v", got, time.Since(began))
	}
}
