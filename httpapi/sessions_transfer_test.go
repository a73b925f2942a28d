package httpapi

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestSessionTransfer takes sessions from one server to another.
func TestSessionTransfer(t *testing.T) {
	t.Parallel()
	from, to := serve(t, Config{}), serve(t, Config{})
	lines := map[string]string{"Content-Type": "application/x-ndjson"}
	var both []byte
	for _, id := range []string{"one", "two"} {
		from.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
		from.turn(t, id, "remember "+id)
		at := "/v1/sessions/" + id + "/export"
		a := from.do(t, call{path: at}).want(t, 200)
		if a.Header.Get("Content-Type") != "application/x-ndjson" || !strings.Contains(a.Header.Get("Content-Disposition"), id+".jsonl") {
			t.Errorf("%v", a.Header)
		}
		if again := from.do(t, call{path: at}).want(t, 200); !bytes.Equal(a.body, again.body) {
			t.Error("exports of one history differ")
		}
		from.do(t, call{method: "HEAD", path: at}).want(t, 200)
		both = append(both, a.body...)
	}
	from.do(t, call{path: "/v1/sessions/none/export"}).problem(t, 404, "session_not_found")

	take := func(body []byte) answer {
		t.Helper()
		return to.do(t, call{method: "POST", path: "/v1/sessions", body: string(body), header: lines})
	}
	for name, body := range map[string][]byte{
		"line 1": []byte("no export\n"),
		`"end"`:  both[:bytes.LastIndexByte(both[:len(both)-1], '\n')+1],
		"other":  []byte(`{"export":{"format":"other","version":1,"session":"x"}}`),
	} {
		p := take(body).problem(t, 400, "invalid_request")
		if detail := fmt.Sprint(p["detail"]); !strings.Contains(detail, name) || !strings.Contains(detail, "nothing was imported") {
			t.Errorf("%s: %v", name, p)
		}
	}
	to.do(t, call{method: "POST", path: "/v1/sessions", body: "{}", header: map[string]string{"Content-Type": "text/plain"}}).problem(t, 415, "unsupported_media_type")
	if got := take(both).want(t, 201).json(t); fmt.Sprint(got["sessions"]) != "[one two]" {
		t.Errorf("%v", got)
	}
	take(both).problem(t, 409, "conflict")
	for _, id := range []string{"one", "two"} {
		path := "/v1/sessions/" + id + "/events"
		want, got := from.do(t, call{path: path}).want(t, 200), to.do(t, call{path: path}).want(t, 200)
		if !bytes.Equal(want.body, got.body) {
			t.Errorf("the events were\n%s\nand are\n%s", want.body, got.body)
		}
		if got := said(to.turn(t, id, "and on")); !strings.HasSuffix(got, "and on|") {
			t.Errorf("%q", got)
		}
	}
}
