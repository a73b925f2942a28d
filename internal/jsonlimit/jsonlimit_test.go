package jsonlimit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	nested := func(n int, open, end string) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	for name, c := range map[string]struct {
		text string
		deep bool
	}{
		"flat":             {`{"a":1}`, false},
		"the limit":        {nested(100, "[", "]"), false},
		"one more":         {nested(101, "[", "]"), true},
		"objects":          {strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101), true},
		"mixed":            {strings.Repeat(`[{"a":`, 51) + "1" + strings.Repeat("}]", 51), true},
		"in a string":      {`{"a":"` + strings.Repeat("[", 200) + `"}`, false},
		"behind a string":  {`["\\",` + nested(100, "[", "]") + `]`, true},
		"escaped quote":    {`["\"` + strings.Repeat("[", 200) + `"]`, false},
		"side by side":     {"[" + strings.Repeat("[],", 200) + "1]", false},
		"never closed":     {strings.Repeat("[", 200), true},
		"unfinished text":  {`["` + strings.Repeat("[", 200), false},
		"unfinished slash": {`["\`, false},
	} {
		if err := jsonlimit.Check([]byte(c.text)); errors.Is(err, jsonlimit.ErrTooDeep) != c.deep {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckValues counts the values that decoding allocates, and nothing in strings.
func TestCheckValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		many bool
	}{
		"elements":        {"[" + strings.Repeat("1,", 8) + "1]", false},
		"one more":        {"[" + strings.Repeat("1,", 9) + "1]", true},
		"members":         {`{"a":{` + strings.Repeat(`"b":1,`, 9) + `"c":1}}`, true},
		"empty objects":   {"[" + strings.Repeat("{},", 5) + "{}]", true},
		"empty arrays":    {strings.Repeat("[", 10) + strings.Repeat("]", 10), true},
		"in a string":     {`["` + strings.Repeat("1,{[", 20) + `"]`, false},
		"unfinished text": {"[" + strings.Repeat("1,", 20), true},
	} {
		if err := jsonlimit.CheckLimits([]byte(c.text), 100, 10); errors.Is(err, jsonlimit.ErrTooManyValues) != c.many {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIndented compares the bound with the output of json.Indent for random texts.
func TestIndented(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		text, err := json.Marshal(random(r, 6))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, text, "    ", "  "); err != nil {
			t.Fatal(err)
		}
		if bound := jsonlimit.Indented(text, 2, 2); out.Len() > bound {
			t.Fatalf("%s has %d bytes, more than %d", text, out.Len(), bound)
		}
	}
}

func random(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case n < 2 && depth > 0:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = random(r, depth-1)
		}
		return list
	case n < 4 && depth > 0:
		object := map[string]any{}
		for range r.IntN(4) {
			object[strings.Repeat(`"[{:,`, r.IntN(3))] = random(r, depth-1)
		}
		return object
	}
	return `a"[,\`
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"a":["\""]}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_ = jsonlimit.Check(text)
		_ = jsonlimit.Indented(text, 2, 0)
	})
}
