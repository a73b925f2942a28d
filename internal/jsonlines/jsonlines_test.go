package jsonlines_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/deskhand/deskhand/internal/jsonlines"
)

func TestReader(t *testing.T) {
	t.Parallel()
	const limit = 200_000
	long := strings.Repeat("b", limit) + "end"
	text := " {} \r\n\n  \n" + strings.Repeat("a", limit) + "\n" + long + "\nlast"
	for name, in := range map[string]io.Reader{
		"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)),
	} {
		var got []string
		for r := jsonlines.NewReader(in, limit); ; {
			line, tooLong, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if tooLong != nil {
				got = append(got, fmt.Sprintf("%d %d %d %t", tooLong.Size, len(tooLong.Head), len(tooLong.Tail), strings.HasSuffix(string(tooLong.Tail), "bend\n")))
			} else if len(line) > 10 {
				got = append(got, fmt.Sprint(len(line)))
			} else {
				got = append(got, string(line))
			}
		}
		if want := []string{"{}", fmt.Sprint(limit), fmt.Sprintf("%d 65536 1024 true", len(long)+1), "last"}; !slices.Equal(got, want) {
			t.Errorf("%s: lines %q, want %q", name, got, want)
		}
	}
}
