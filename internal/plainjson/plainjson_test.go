package plainjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/plainjson"
)

func ExampleMarshal() {
	text, err := plainjson.Marshal(map[string]string{"text": "a < b && c"})
	fmt.Println(string(text), err)
	// Output: {"text":"a < b && c"} <nil>
}

// A message that is kept as it came is not escaped either.
func TestMarshalRaw(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"html":"` + strings.Repeat("<&>", 100) + `"}`)
	text, err := plainjson.Marshal(raw)
	if err != nil || string(text) != string(raw) {
		t.Errorf("Marshal = %s, %v, want %s", text, err, raw)
	}
}

func TestMarshalError(t *testing.T) {
	t.Parallel()
	if text, err := plainjson.Marshal(make(chan int)); err == nil || text != nil {
		t.Errorf("Marshal of a channel = %s, %v, want an error", text, err)
	}
}
