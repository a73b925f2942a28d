package computer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
)

// TestRepeatedTexts: an answer repeats little of a message. Quoted, the character DEL has five bytes.
func TestRepeatedTexts(t *testing.T) {
	t.Parallel()
	var unused struct{ computer.Desktop }
	s, err := computer.NewServer(unused, computer.Config{
		Browser: func(_ context.Context, _ string, args json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprint(len(args))), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("\x7f", 4<<20)
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
	}
	for name, body := range map[string]string{
		"version":        `{"jsonrpc":"` + long + `","id":1,"method":"ping"}`,
		"id":             `{"jsonrpc":"2.0","id":"` + long + `","method":"ping"}`,
		"method":         `{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
		"text":           `"` + long + `"`,
		"list":           `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["` + long + `"]}`,
		"string":         `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"` + long + `"}`,
		"other method":   `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":5,"arguments":"` + long + `"}}`,
		"tool":           call(`"name":"` + long + `"`),
		"twice":          call(`"name":"` + long + `","NAME":"key"`),
		"other member":   call(`"name":"key","x":"` + long + `"`),
		"no name":        call(`"name":5,"arguments":{"text":"` + long + `"}`),
		"no meta":        call(`"name":"key","_meta":5,"_META":{},"arguments":{"text":"` + long + `"}`),
		"two params":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5,"x":"` + long + `"},"Params":{"name":"key"}}`,
		"two arguments":  call(`"name":"key","arguments":{"text":"` + long + `"},"arguments":{}`),
		"unknown tool":   call(`"name":"` + long[:1000] + `"`),
		"action":         call(`"name":"computer","arguments":{"action":"` + long + `"}`),
		"actions":        call(`"name":"computer","arguments":{"actions":[{"action":"` + long + `"}]}`),
		"direction":      call(`"name":"scroll","arguments":{"scroll_direction":"` + long + `"}`),
		"kind":           call(`"name":"clipboard_get","arguments":{"kind":"` + long + `"}`),
		"number":         call(`"name":"clipboard_get","arguments":{"kind":` + strings.Repeat("1", 4<<20) + `}`),
		"browser action": call(`"name":"browser","arguments":{"action":"` + long + `"}`),
	} {
		if w := raw(t, s, http.MethodPost, body, nil); w.Body.Len() > 8<<10 {
			t.Errorf("%s: %d with %d bytes: %.200s", name, w.Code, w.Body.Len(), w.Body)
		}
	}
	body := call(`"name":"browser","arguments":{"action":"evaluate","expression":"` + long + `"}`)
	if w := raw(t, s, http.MethodPost, body, nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), fmt.Sprint(len(long)+len(`{"expression":""}`))) {
		t.Errorf("large arguments: %d %.200s", w.Code, w.Body)
	}
}
