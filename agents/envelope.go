package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/jsonlimit"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// envelope is one JSON-RPC message. It keeps the bytes that came and the places of some
// members, and only these members are replaced. A decoded and encoded copy would differ, for
// example in numbers beyond 2^53 and in the order of members.
type envelope struct {
	raw     []byte // one line, valid JSON and UTF-8
	object  bool
	id      span
	method  string
	params  span
	result  span
	failure span // "error"
	session span // params.sessionId, a string
}

// span is the place of a member in raw. It is empty if there is no such member.
type span struct{ from, to int }

func (s span) exists() bool { return s.to > s.from }

func (e *envelope) bytes(s span) []byte { return e.raw[s.from:s.to] }

func (e *envelope) isRequest() bool      { return e.method != "" && e.id.exists() }
func (e *envelope) isNotification() bool { return e.method != "" && !e.id.exists() }
func (e *envelope) isResponse() bool     { return e.object && e.method == "" && e.id.exists() }

func (e *envelope) sessionID() string { return stringValue(e.bytes(e.session)) }

// parse decodes a message. It replaces line breaks between tokens by spaces, since a message
// is one line. Agents may write JSON that is not an object.
func parse(raw []byte) (*envelope, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not UTF-8")
	}
	if !json.Valid(raw) {
		var v json.RawMessage
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
	}
	e := &envelope{raw: oneLine(bytes.TrimSpace(raw))}
	if e.raw[0] != '{' {
		return e, nil
	}
	e.object = true
	var twice string
	eachMember(e.raw, 0, func(name string, v span) {
		switch name {
		case "id":
			if e.id.exists() {
				twice = name
			}
			e.id = v
		case "method":
			e.method = stringValue(e.bytes(v))
		case "params":
			e.params = v
		case "result":
			e.result = v
		case "error":
			e.failure = v
		}
	})
	if twice != "" {
		return nil, fmt.Errorf("member %q is there twice", twice)
	}
	if e.params.exists() && e.raw[e.params.from] == '{' {
		e.session = e.find(e.params, "sessionId")
		if e.session.exists() && e.raw[e.session.from] != '"' {
			e.session = span{}
		}
	}
	return e, nil
}

// parseClient is like parse but bounds the nesting.
func parseClient(raw []byte) (*envelope, error) {
	if err := jsonlimit.Check(raw); err != nil {
		return nil, err
	}
	return parse(raw)
}

// maxID bounds the ids that an agent chooses, which queues and answers repeat.
const maxID = 1 << 10

// parseAgent is like parse but bounds the id.
func parseAgent(raw []byte) (*envelope, error) {
	e, err := parse(raw)
	if err == nil && len(e.bytes(e.id)) > maxID {
		return nil, fmt.Errorf("its id has %d bytes, and %d are allowed; the message was dropped", len(e.bytes(e.id)), maxID)
	}
	return e, err
}

// oneLine replaces line breaks. In valid JSON they are between tokens.
func oneLine(b []byte) []byte {
	if !bytes.ContainsAny(b, "\r\n") {
		return b
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b)
}

// find returns a member of the object at s, or the empty span.
func (e *envelope) find(s span, name string) span {
	var found span
	if !s.exists() || e.raw[s.from] != '{' {
		return found
	}
	eachMember(e.raw, s.from, func(n string, v span) {
		if n == name {
			found = v
		}
	})
	return found
}

// edit replaces a place in a message.
type edit struct {
	at   span
	with []byte
}

// with returns raw with some places replaced. It ignores edits of empty places, and edits
// with nil.
func (e *envelope) with(edits ...edit) []byte {
	edits = slices.DeleteFunc(edits, func(ed edit) bool { return !ed.at.exists() || ed.with == nil })
	if len(edits) == 0 {
		return e.raw
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.at.from - b.at.from })
	size := len(e.raw)
	for _, ed := range edits {
		size += len(ed.with)
	}
	out, at := make([]byte, 0, size), 0
	for _, ed := range edits {
		out = append(append(out, e.raw[at:ed.at.from]...), ed.with...)
		at = ed.at.to
	}
	return append(out, e.raw[at:]...)
}

// rewritten returns the message with another id and another session. Nil keeps either.
func (e *envelope) rewritten(id, session []byte) []byte {
	return e.with(edit{e.id, id}, edit{e.session, session})
}

// setMember returns an object with one member set or added.
func setMember(object []byte, name string, value []byte) []byte {
	e := envelope{raw: object}
	all := span{0, len(object)}
	if at := e.find(all, name); at.exists() {
		return e.with(edit{at, value})
	}
	key := jsonString(name)
	end := bytes.LastIndexByte(object, '}')
	comma := ""
	if len(bytes.TrimSpace(object[1:end])) > 0 {
		comma = ","
	}
	return fmt.Appendf(nil, "%s%s%s:%s%s", object[:end], comma, key, value, object[end:])
}

// eachMember calls f with the members of the object that begins at from. raw is valid
// JSON.
func eachMember(raw []byte, from int, f func(name string, value span)) {
	for i := skipSpace(raw, from+1); raw[i] != '}'; {
		end := skipValue(raw, i)
		name := raw[i+1 : end-1]
		key := string(name)
		if bytes.IndexByte(name, '\\') >= 0 {
			key = stringValue(raw[i:end])
		}
		i = skipSpace(raw, skipSpace(raw, end)+1) // the colon
		end = skipValue(raw, i)
		f(key, span{i, end})
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
	}
	for i < len(b) && !bytes.ContainsRune([]byte(",}] \t\r\n"), rune(b[i])) {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		slashes := 0
		for j := i + n - 1; j >= i && b[j] == '\\'; j-- {
			slashes++
		}
		if i += n + 1; slashes%2 == 0 {
			return i
		}
	}
}

// stringValue returns the value of a JSON string, or "".
func stringValue(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func jsonString(s string) []byte { return encode(s) }

// encode returns a value's JSON, without escapes for HTML. The value must have one.
func encode(v any) []byte {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return text
}

// idKey returns the same key for ids that a peer may take for equal, such as "\u0061" and
// "a", or 1.0 and 1.
func idKey(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return `"` + stringValue(raw)
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	return string(raw)
}

func notification(method string, params any) []byte {
	return encode(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}

func errorAnswer(id []byte, code int, message string, data any) []byte {
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{code, message, data}})
}

func resultAnswer(id, result []byte) []byte {
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
	}{"2.0", id, result})
}
