package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// The kind of an event does not keep the whole method in memory.
func TestKindIsCopied(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<20)
	if kind := eventKind(long); len(kind) > maxKind || unsafe.StringData(kind) == unsafe.StringData(long) {
		t.Errorf("a kind of %d bytes, of the memory of the whole method", len(kind))
	}
}

// A form keeps no room for the options that it leaves out.
func TestOptionsAreClipped(t *testing.T) {
	t.Parallel()
	f, err := ParseForm([]byte(`{"requestedSchema":{"properties":{"a":{"type":"string","enum":["x"` + strings.Repeat(`,"x"`, 100*MaxOptions) + `]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if o := f.Questions[0].Options; len(o) != MaxOptions || cap(o) > 2*MaxOptions {
		t.Errorf("%d options with room for %d", len(o), cap(o))
	}
}

// What a session keeps of an update does not keep the whole message in memory.
func TestUpdateIsCopied(t *testing.T) {
	t.Parallel()
	e, err := parse([]byte(`{"method":"session/update","params":{"update":{"sessionUpdate":"config_option_update","configOptions":[{"id":"a","currentValue":"b"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := &attachedSession{}
	s.applyUpdate(e)
	want := string(s.row.Config)
	clear(e.raw)
	if got := string(s.row.Config); got != want || want == "" {
		t.Errorf("the options %q are a part of the message", got)
	}
}

// Options, modes and methods with long names do not count.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<10+1)
	const option = `{"id":%q,"category":%q,"currentValue":%q,"options":[{"value":%[3]q}]}`
	config := "[" + strings.Join([]string{
		fmt.Sprintf(option, long, "c", "v"), fmt.Sprintf(option, "a", long, "v"), fmt.Sprintf(option, "b", "c", long), fmt.Sprintf(option, "kept", "c", "v"),
	}, ",") + "]"
	if all := configOptionsOf([]byte(config)); len(all) != 1 || all[0].ID != "kept" {
		t.Errorf("%d options count, want one", len(all))
	}
	if all := configOptionsOf([]byte("[" + strings.Repeat(" ", maxOffered) + config[1:])); len(all) > 0 {
		t.Errorf("%d options of a list of more than 1 MiB count", len(all))
	}
	s := &attachedSession{data: sessionData{Mode: "m"}}
	s.applyResult(sessionResult{Modes: json.RawMessage(`{"currentModeId":"` + long + `"}`)})
	if s.data.Mode != "m" {
		t.Errorf("the mode has %d bytes", len(s.data.Mode))
	}
	e, err := parse([]byte(`{"id":1,"method":"` + long + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	if q := newQuestion("p", nil, e); len(q.method) > maxKind {
		t.Errorf("a question keeps a method of %d bytes", len(q.method))
	}
}
