// Package plainjson encodes JSON that programs read: without the escapes that only JSON within HTML
// needs, which make a character six bytes.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Marshal is like json.Marshal, and leaves the characters <, > and & as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
