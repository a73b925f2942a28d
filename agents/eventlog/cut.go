package eventlog

import (
	"bytes"
	"encoding/base64"
)

// minRun is the length of a run of base64 above which it becomes a blob. Pictures are such
// runs, and often repeat.
const minRun = 64 << 10

// span is a part of a payload.
type span struct{ from, to int }

// inBase64 has the characters of base64 without the padding.
var inBase64 = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		in[c] = true
	}
	return in
}()

// findRuns returns the runs of base64 that are longer than minRun. Such a run covers one of
// each minRun bytes, so only these are checked.
func findRuns(payload []byte) (runs []span) {
	for at := minRun - 1; at < len(payload); at += minRun {
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
		if to-from > minRun {
			runs = append(runs, closeRun(payload, from, to))
		}
		at += (to - at) / minRun * minRun // skips the checks within this run
	}
	return runs
}

// closeRun gives a run a length that base64 can have: it adds the padding that follows, or
// removes the last characters.
func closeRun(payload []byte, from, to int) span {
	rest := (to - from) % 4
	if padding := (4 - rest) % 4; rest >= 2 && bytes.HasPrefix(payload[to:], []byte("==")[:padding]) {
		return span{from, to + padding}
	}
	return span{from, to - rest}
}

// decodePiece decodes a run. ok is false if encoding the result would not give the same
// characters, because unused bits of the last one are set.
func decodePiece(text []byte) (data []byte, ok bool) {
	data, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	return data, err == nil
}
