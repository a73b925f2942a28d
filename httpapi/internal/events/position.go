package events

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Positions has how far each source of a stream is, by its key. Its text is the id of events.
type Positions map[string]string

// parsePositions returns the positions in the id of an event. It returns false if the text is
// no such id.
func parsePositions(id string) (Positions, bool) {
	values, err := url.ParseQuery(id)
	if err != nil {
		return nil, false
	}
	p := Positions{}
	for key, all := range values {
		if len(all) != 1 || all[0] == "" {
			return nil, false
		}
		p[key] = all[0]
	}
	return p, true
}

func (p Positions) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(key) + "=" + url.QueryEscape(p[key]))
	}
	return b.String()
}

// Number returns a position that is a number. It returns false if there is none.
func (p Positions) Number(key string) (n int64, ok bool) {
	n, err := strconv.ParseInt(p[key], 10, 64)
	return n, err == nil && n >= 0
}

// Pair returns a position that has the name of a sequence and a number in it.
func (p Positions) Pair(key string) (sequence string, n uint64, ok bool) {
	sequence, number, found := strings.Cut(p[key], "-")
	n, err := strconv.ParseUint(number, 10, 64)
	return sequence, n, found && err == nil
}

// PairOf returns a position that has the name of a sequence and a number in it.
func PairOf(sequence string, n uint64) string { return sequence + "-" + strconv.FormatUint(n, 10) }
