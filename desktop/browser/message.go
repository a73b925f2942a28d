package browser

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// message is a message of the protocol, in both directions. Its members are JSON texts in
// the message that it was parsed from; absent members are nil.
type message struct {
	id, method, params, result, fault, session []byte
}

var errNotMessage = errors.New("not a message of the DevTools protocol")

// parseMessage finds the members of a message. It checks the text only as far as it needs
// to: a caller that does not trust the text calls json.Valid before.
func parseMessage(text []byte) (m message, err error) {
	i := skipSpace(text, 0)
	if i >= len(text) || text[i] != '{' {
		return m, errNotMessage
	}
	for i = skipSpace(text, i+1); i < len(text) && text[i] == '"'; i = skipSpace(text, i) {
		end := skipValue(text, i)
		if end > len(text) {
			return m, errNotMessage
		}
		name := text[i:end]
		if i = skipSpace(text, end); i >= len(text) || text[i] != ':' {
			return m, errNotMessage
		}
		i = skipSpace(text, i+1)
		end = skipValue(text, i)
		if end > len(text) || end == i {
			return m, errNotMessage
		}
		if member := m.member(name); member != nil {
			*member = text[i:end]
		}
		if i = skipSpace(text, end); i < len(text) && text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	if i >= len(text) || text[i] != '}' {
		return m, errNotMessage
	}
	return m, nil
}

func (m *message) member(name []byte) *[]byte {
	switch string(name) {
	case `"id"`:
		return &m.id
	case `"method"`:
		return &m.method
	case `"params"`:
		return &m.params
	case `"result"`:
		return &m.result
	case `"error"`:
		return &m.fault
	case `"sessionId"`:
		return &m.session
	}
	return nil
}

// encode returns the message as JSON.
func (m message) encode() []byte {
	size := len(m.id) + len(m.method) + len(m.params) + len(m.result) + len(m.fault) + len(m.session)
	b := append(make([]byte, 0, size+80), '{')
	for _, member := range []struct {
		name  string
		value []byte
	}{
		{`"id":`, m.id},
		{`"method":`, m.method},
		{`"params":`, m.params},
		{`"result":`, m.result},
		{`"error":`, m.fault},
		{`"sessionId":`, m.session},
	} {
		if member.value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, member.name...), member.value...)
	}
	return append(b, '}')
}

// plain returns the content of a JSON string without escapes, and "" for another value. The
// browser escapes neither methods nor ids.
func plain(text []byte) string {
	if len(text) < 2 || text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
		return ""
	}
	return string(text[1 : len(text)-1])
}

func quote(s string) []byte {
	if s == "" {
		return nil
	}
	return strconv.AppendQuote(nil, s) // ids and methods are ASCII
}

// number returns the value of a JSON integer.
func number(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the JSON value at i, or len(text)+1 if the value does not
// end.
func skipValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(text) && bytes.IndexByte([]byte(`,:]} `+"\n\t\r"), text[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(text) + 1
}

// skipString returns the index after the JSON string at i, or len(text)+1 if it does not end.
func skipString(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[min(i, len(text)):], '"')
		if n < 0 {
			return len(text) + 1
		}
		i += n
		slashes := 0
		for text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// Fault is an error that the browser answers a command with.
type Fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

func (f *Fault) Error() string {
	if f.Data != "" {
		return f.Message + ": " + f.Data
	}
	return f.Message
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("browser: a command that is not JSON: " + err.Error())
	}
	return b
}
