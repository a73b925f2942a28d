package accessibility_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

func TestWait(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	want := accessibility.Match{Role: "button", Name: "OK"}
	type result struct {
		e   accessibility.Element
		err error
	}
	came := make(chan result, 1)
	go func() {
		e, err := tree.Wait(t.Context(), accessibility.Condition{Match: want})
		came <- result{e, err}
	}()
	launch(t, d, "zenity", "--info", "--text=Here")
	if r := <-came; r.err != nil || r.e.Name != "OK" {
		t.Fatalf("%+v, %v", r.e, r.err)
	}
	if _, err := tree.Wait(t.Context(), accessibility.Condition{Match: want, Gone: true, Timeout: 100 * time.Millisecond}); !errors.Is(err, accessibility.ErrPresent) {
		t.Errorf("gone: %v", err)
	}
	if _, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Name: "No"}, Timeout: 100 * time.Millisecond}); !errors.Is(err, accessibility.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if err := d.Press(t.Context(), desktop.Press{Keys: "Return"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Wait(t.Context(), accessibility.Condition{Match: want, Gone: true}); err != nil {
		t.Errorf("gone: %v", err)
	}
	for name, c := range map[string]accessibility.Condition{
		"nothing":    {},
		"role":       {Match: accessibility.Match{Role: "knob"}},
		"expression": {Match: accessibility.Match{Name: "~("}},
		"repetition": {Match: accessibility.Match{Name: "~" + strings.Repeat(".{0,999}", 100)}},
		"state":      {Match: accessibility.Match{States: []string{"sleepy"}}},
		"timeout":    {Match: want, Timeout: time.Hour},
	} {
		if _, err := tree.Wait(t.Context(), c); !errors.Is(err, accessibility.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
