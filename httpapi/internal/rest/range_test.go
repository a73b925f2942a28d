package rest

import (
	"testing"
)

func FuzzRange(f *testing.F) {
	for _, header := range []string{"bytes=0-9", "bytes=-5", "bytes=5-", "bytes=9-1", "bytes=0-1,2-3", "bytes=-", "x=1-2", "bytes=18446744073709551616-"} {
		f.Add(header, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		r, understood, satisfiable := parseRange(header, size)
		switch {
		case !understood && satisfiable:
			t.Errorf("%q of %d is satisfiable, but not understood", header, size)
		case satisfiable && (r.from < 0 || r.length < 1 || r.from > size-r.length):
			t.Errorf("%q of %d = %+v", header, size, r)
		}
	})
}
