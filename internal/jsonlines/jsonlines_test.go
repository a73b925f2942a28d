package jsonlines_test

import (
	"errors"
	"fmt"
	"io"
	"os"
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
		for r := jsonlines.NewReader(in, limit, nil); ; {
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

// countingShare is a Share that counts its calls.
type countingShare struct{ taken, dropped int }

func (r *countingShare) Take() error { r.taken++; return nil }
func (r *countingShare) Drop()       { r.dropped++ }

// stalled returns its parts. Between two parts it returns os.ErrDeadlineExceeded.
type stalled []string

func (s *stalled) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	part := (*s)[0]
	n := copy(p, part)
	if (*s)[0] = part[n:]; n == len(part) {
		*s = (*s)[1:]
	}
	if part == "" {
		return 0, os.ErrDeadlineExceeded
	}
	return n, nil
}

// TestShare reads lines that take a share and keep it, and others that do not: small, blank,
// too long and late ones.
func TestShare(t *testing.T) {
	t.Parallel()
	const limit = 4 * jsonlines.Large
	large := func(c string, n int) string { return strings.Repeat(c, n) }
	in := &stalled{
		large("a", jsonlines.Large-1) + "\n" + large("b", 2*jsonlines.Large) + "\n" +
			large(" ", 2*jsonlines.Large) + "\n" + large("c", limit+1) + "\n" + large("d", 2*jsonlines.Large), "",
		large("d", 3*limit) + "\nlast\n",
	}
	var share countingShare
	r := jsonlines.NewReader(in, limit, &share)
	for _, want := range []struct {
		size, taken, dropped int
		late, long           bool
	}{
		{size: jsonlines.Large - 1},
		{size: 2 * jsonlines.Large, taken: 1},
		{size: limit + 2, taken: 3, dropped: 2, long: true},
		{size: 2 * jsonlines.Large, taken: 4, dropped: 3, long: true, late: true},
		{size: 4, taken: 4, dropped: 3},
	} {
		line, long, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		size := len(line)
		if long != nil {
			size = int(long.Size)
		}
		if size != want.size || (long != nil) != want.long || long != nil && long.Late != want.late {
			t.Errorf("a line of %d bytes, %+v, want %+v", size, long != nil, want)
		}
		if (share != countingShare{want.taken, want.dropped}) {
			t.Errorf("after a line of %d bytes: share %+v, want %+v", size, share, want)
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}
