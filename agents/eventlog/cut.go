package eventlog

import (
	"bytes"
	"encoding/base64"
)

// cutFrom is how many characters of base64 in a row become a blob. Pictures
// come as such runs, often the same one several times.
const cutFrom = 64 << 10

// span is a part of a payload.
type span struct{ from, to int }

// inBase64 says which bytes base64 is made of, but for its padding.
var inBase64 = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		in[c] = true
	}
	return in
}()

// cut finds the runs of base64 that are longer than cutFrom, whatever they are
// in. A run that long covers one of each cutFrom bytes, so that it is enough to
// look there; other text ends a look at the next quote or space.
func cut(payload []byte) (runs []span) {
	for at := cutFrom - 1; at < len(payload); at += cutFrom {
		if !inBase64[payload[at]] {
			continue
		}
		from, to := at, at+1
		for from > 0 && inBase64[payload[from-1]] {
			from--
		}
		for to < len(payload) && inBase64[payload[to]] {
			to++
		}
		if to-from > cutFrom {
			runs = append(runs, closeRun(payload, from, to))
		}
		at += (to - at) / cutFrom * cutFrom // those in the same run
	}
	return runs
}

// closeRun makes a run's length one that base64 can have: with the padding
// that follows, or without the last characters.
func closeRun(payload []byte, from, to int) span {
	rest := (to - from) % 4
	if padding := (4 - rest) % 4; rest >= 2 && bytes.HasPrefix(payload[to:], []byte("==")[:padding]) {
		return span{from, to + padding}
	}
	return span{from, to - rest}
}

// decodePiece decodes a run, if encoding it again gives the same characters:
// the unused bits of its last one are zero. Otherwise the run stays.
func decodePiece(text []byte) (data []byte, ok bool) {
	data, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	return data, err == nil
}
