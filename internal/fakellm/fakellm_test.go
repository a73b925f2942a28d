package fakellm

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a request and returns the answer's status and its events, or the
// one object that it is.
func post(t *testing.T, url, body string) (int, []map[string]any) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out []map[string]any
	add := func(text string) {
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		out = append(out, m)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		data, isEvent := strings.CutPrefix(line, "data: ")
		switch {
		case isEvent && data != "[DONE]":
			add(data)
		case strings.HasPrefix(line, "{"):
			add(line)
		}
	}
	return res.StatusCode, out
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// joined is what the events hold at a path of members, put together.
func joined(events []map[string]any, path ...string) string {
	var b strings.Builder
	for _, e := range events {
		var at any = e
		for _, name := range path {
			switch v := at.(type) {
			case map[string]any:
				at = v[name]
			case []any:
				at = v[0].(map[string]any)[name]
			}
		}
		if s, ok := at.(string); ok {
			b.WriteString(s)
		}
	}
	return b.String()
}

const script = "please\n@think hm\n@say first\n@call nothing|Ba* {\"command\":\"date\"}\n@say it said {result}, {images} image, of {tools}\n@fail 529 busy"

func TestAPIs(t *testing.T) {
	t.Parallel()
	s := new(Server)
	server := httptest.NewServer(s)
	defer server.Close()
	for _, api := range []struct {
		path, first, second string
		said, called        []string // where that is in the events
	}{{
		"/v1/messages",
		`{"model":"m","stream":true,"tools":[{"name":"Read"},{"name":"Bash"}],"messages":[{"role":"user","content":` + quoted(script) + `}]}`,
		`{"model":"m","stream":true,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":` + quoted(script) + `},
			{"role":"assistant","content":[]},
			{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"noon"},{"type":"image"}]}]}]}`,
		[]string{"delta", "text"},
		[]string{"delta", "partial_json"},
	}, {
		"/v1/responses",
		`{"model":"m","stream":true,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"Bash"}]}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":` + quoted(script) + `}]}]}`,
		`{"model":"m","stream":true,"tools":[{"type":"function","name":"Bash"}],"input":[{"role":"user","content":` + quoted(script) + `},
			{"type":"function_call_output","output":[{"type":"input_text","text":"noon"},{"type":"input_image"}]}]}`,
		[]string{"delta"},
		[]string{"arguments"},
	}, {
		"/v1/chat/completions",
		`{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"Bash"}}],"messages":[{"role":"user","content":` + quoted(script) + `}]}`,
		`{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"Bash"}}],"messages":[{"role":"user","content":` + quoted(script) + `},
			{"role":"tool","content":"noon"},{"role":"user","content":[{"type":"image_url"}]}]}`,
		[]string{"choices", "delta", "content"},
		[]string{"choices", "delta", "tool_calls", "function", "arguments"},
	}} {
		_, first := post(t, server.URL+api.path, api.first)
		if got := joined(first, api.said...); !strings.Contains(got, "first") || strings.Contains(got, "noon") {
			t.Errorf("%s says %q", api.path, got)
		}
		if got := joined(first, api.called...); !strings.Contains(got, `{"command":"date"}`) {
			t.Errorf("%s calls with %q", api.path, got)
		}
		// The error comes before any of the answer is sent.
		if status, second := post(t, server.URL+api.path, api.second); status != 529 || joined(second, "error", "message") != "busy" {
			t.Errorf("%s, then: %d %v", api.path, status, second)
		}
		calm := strings.ReplaceAll(api.second, `\n@fail 529 busy`, "")
		_, second := post(t, server.URL+api.path, calm)
		if got := joined(second, api.said...); !strings.Contains(got, "it said noon, 1 image, of Bash") {
			t.Errorf("%s says at last %q", api.path, got)
		}
		_, whole := post(t, server.URL+api.path, strings.Replace(calm, `"stream":true,`, "", 1))
		if len(whole) != 1 || whole[0]["id"] == "" {
			t.Errorf("%s, not streamed: %v", api.path, whole)
		}
	}
	if got := s.Requests(); len(got) != 12 || got[0].Path != "/v1/messages" || got[0].Body == nil {
		t.Errorf("%d requests are remembered", len(got))
	}
	for path, want := range map[string]int{"/v1/messages": 400, "/v1/responses": 400, "/v1/chat/completions": 400, "/v1/nothing": 404} {
		if status, _ := post(t, server.URL+path, "no JSON"); status != want {
			t.Errorf("%s with nonsense: %d", path, status)
		}
	}
}
