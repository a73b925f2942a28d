package computer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// response is an answer of the server.
type response struct {
	ID, Result json.RawMessage
	Error      *struct {
		Code    int
		Message string
	}
}

// answers has the answers by id.
type answers map[string]response

// output records what is written.
type output struct{ bytes.Buffer }

func (*output) Close() error { return nil }

// exchange sends all lines and the end of the input to a server and to its relay, and calls
// check with the answers of each.
func exchange(t *testing.T, lines string, check func(*testing.T, answers)) {
	t.Helper()
	s, err := NewServer(&checker{t, desktop.Size{Width: 1428, Height: 803}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	for name, run := range map[string]func(context.Context, io.ReadCloser, io.WriteCloser) error{
		"server": s.Run, "relay": Relay{Endpoint: web.URL}.Run,
	} {
		t.Run(name, func(t *testing.T) {
			var out output
			if err := run(t.Context(), io.NopCloser(strings.NewReader(hello+lines)), &out); err != nil {
				t.Fatal(err)
			}
			got := answers{}
			for line := range bytes.SplitSeq(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
				var a response
				if err := json.Unmarshal(line, &a); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				got[string(a.ID)] = a
			}
			if got[`"hello"`].Result == nil {
				t.Errorf("initialize got no answer: %s", &out)
			}
			check(t, got)
		})
	}
}

// TestParamsMissing calls every method without params and with invalid params.
func TestParamsMissing(t *testing.T) {
	methods := []string{
		"tools/list", "tools/call", "ping", "server/discover", "prompts/list", "prompts/get", "resources/list",
		"resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel", "subscriptions/listen", "initialize", "no/such",
	}
	var lines strings.Builder
	n := 0
	for _, params := range []string{``, `,"params":null`, `,"params":{}`, `,"params":[]`, `,"params":5`, `,"params":{"_meta":null}`} {
		for _, m := range methods {
			fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":%q%s}`+"\n", n, m, params)
			n++
		}
		for _, m := range []string{"cancelled", "progress", "initialized", "roots/list_changed"} {
			fmt.Fprintf(&lines, `{"jsonrpc":"2.0","method":"notifications/%s"%s}`+"\n", m, params)
		}
	}
	exchange(t, lines.String(), func(t *testing.T, got answers) {
		t.Helper()
		for i := range n {
			a := got[fmt.Sprint(i)]
			if a.Result == nil && a.Error == nil {
				t.Errorf("call %d of %s got no answer", i, methods[i%len(methods)])
			}
		}
		for i := range 3 { // none, null, {}
			var list mcp.ListToolsResult
			if err := json.Unmarshal(got[fmt.Sprint(i*len(methods))].Result, &list); err != nil || len(list.Tools) < 10 {
				t.Errorf("tools/list %d: %v, %d tools", i, err, len(list.Tools))
			}
		}
	})
}

// TestLinesOfNoMessage: lines that are not messages are answered with errors, and the lines
// around them are answered too.
func TestLinesOfNoMessage(t *testing.T) {
	for _, c := range []struct {
		line string
		id   string
		code int
	}{
		{`no json`, "null", -32700},
		{`{"jsonrpc":"2.0","id":1,"method":`, "null", -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, "null", -32700},
		{"\xff\xfe", "null", -32700},
		{`5`, "null", -32600},
		{`[]`, "null", -32600},
		{`{"id":7,"method":"ping"}`, "7", -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":"x","method":5}`, `"x"`, -32600},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", -32600},
		{`{"jsonrpc":"2.0","id":5,"method":"ping","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "5", -32600},
		{`"` + strings.Repeat("x", mcp.DefaultMaxLineLength) + `"`, "null", -32600},
	} {
		exchange(t, "\n \r\n"+c.line+"\n"+`{"jsonrpc":"2.0","id":99,"method":"tools/list","params":{}}`, func(t *testing.T, got answers) {
			t.Helper()
			if e := got[c.id].Error; e == nil || e.Code != c.code {
				t.Errorf("%.80q: %+v", c.line, e)
			}
			if got["99"].Result == nil {
				t.Errorf("%.80q: the next line: %+v", c.line, got["99"].Error)
			}
		})
	}
}
