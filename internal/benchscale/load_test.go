package benchscale

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheck gives Check logs that are not as clients know them: each fault has its error.
func TestCheck(t *testing.T) {
	t.Parallel()
	said := func(seq int64, id, text string) map[string]any {
		return map[string]any{"event_id": id, "sequence": seq, "type": "item.completed", "data": map[string]any{
			"item": map[string]any{"kind": "message", "role": "user", "content": []any{map[string]string{"type": "text", "text": text}}},
		}}
	}
	for name, c := range map[string]struct {
		log     []map[string]any
		prompts map[string]bool
		seen    []string
		want    string // part of the error; empty: none
	}{
		"as it should be": {[]map[string]any{said(1, "a", "one"), said(2, "b", "two")}, map[string]bool{"one": true, "two": false, "three": false}, []string{"a", "b"}, ""},
		"lost":            {[]map[string]any{said(1, "a", "one")}, map[string]bool{"one": true, "two": true}, nil, `"two" is in the log 0 times`},
		"doubled":         {[]map[string]any{said(1, "a", "one"), said(2, "b", "one")}, map[string]bool{"one": false}, nil, `"one" is in the log 2 times`},
		"a gap":           {[]map[string]any{said(1, "a", "one"), said(3, "b", "two")}, nil, nil, "event 3 where 2 belongs"},
		"another event":   {[]map[string]any{said(1, "a", "one")}, nil, []string{"b"}, "got the event b as number 1"},
		"events too many": {[]map[string]any{said(1, "a", "one")}, nil, []string{"a", "b"}, "got 2 events of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]any{"events": c.log, "hasMore": false})
			}))
			defer server.Close()
			l := NewLoad("token", server.URL)
			defer l.client.CloseIdleConnections()
			l.sessions = []*loadSession{{id: "s", prompts: c.prompts, seen: c.seen}}
			err := l.Check(t.Context(), server.URL)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}
