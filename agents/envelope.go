package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// envelope is one JSON-RPC message. What is in it stays the bytes that came:
// members are found by their place, and only those that have to change are
// replaced, since a decoded and encoded copy would differ (numbers beyond 2^53,
// 1e400, the order of members).
type envelope struct {
	raw     []byte // one line, valid JSON and UTF-8
	object  bool
	id      span
	method  string
	params  span
	result  span
	failure span // "error"

	// What is in params, or in result, that the host cares about.
	session span // params.sessionId, a string
}

// span is a place in raw; empty: there is no such member.
type span struct{ from, to int }

func (s span) there() bool { return s.to > s.from }

func (e *envelope) bytes(s span) []byte { return e.raw[s.from:s.to] }

func (e *envelope) isRequest() bool      { return e.method != "" && e.id.there() }
func (e *envelope) isNotification() bool { return e.method != "" && !e.id.there() }
func (e *envelope) isResponse() bool     { return e.object && e.method == "" && e.id.there() }

// sessionID is the session that params name, or "".
func (e *envelope) sessionID() string { return text(e.bytes(e.session)) }

var errNotObject = errors.New("request body must be a JSON-RPC object")

// parse takes a message apart. Line breaks between tokens become spaces, since
// one message is one line. What is no object is no error: agents may write it.
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
	eachMember(e.raw, 0, func(name string, v span) bool {
		switch name {
		case "id":
			if e.id.there() {
				twice = name
			}
			e.id = v
		case "method":
			e.method = text(e.bytes(v))
		case "params":
			e.params = v
		case "result":
			e.result = v
		case "error":
			e.failure = v
		}
		return true
	})
	if twice != "" {
		return nil, fmt.Errorf("member %q is there twice", twice)
	}
	if e.params.there() && e.raw[e.params.from] == '{' {
		e.session = e.find(e.params, "sessionId")
		if e.session.there() && e.raw[e.session.from] != '"' {
			e.session = span{}
		}
	}
	return e, nil
}

// parseClient is parse for a message of a client, whose nesting is bounded.
func parseClient(raw []byte) (*envelope, error) {
	if err := jsonlimit.Check(raw); err != nil {
		return nil, err
	}
	return parse(raw)
}

// oneLine replaces line breaks, which can only be between tokens.
func oneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b)
}

// find is a member of the object at s, or the empty span.
func (e *envelope) find(s span, name string) span {
	var found span
	if !s.there() || e.raw[s.from] != '{' {
		return found
	}
	eachMember(e.raw, s.from, func(n string, v span) bool {
		if n == name {
			found = v
		}
		return true
	})
	return found
}

// edit is a place and what comes there.
type edit struct {
	at   span
	with []byte
}

// with is a copy of raw with some places replaced. The edits are in ascending
// order; empty places are left out.
func (e *envelope) with(edits ...edit) []byte {
	n := len(e.raw)
	for _, ed := range edits {
		n += len(ed.with)
	}
	out := make([]byte, 0, n)
	at := 0
	for _, ed := range edits {
		if !ed.at.there() {
			continue
		}
		out = append(out, e.raw[at:ed.at.from]...)
		out = append(out, ed.with...)
		at = ed.at.to
	}
	return append(out, e.raw[at:]...)
}

// rewritten is the message with another id and, unless session is nil, another
// session. Nil keeps either.
func (e *envelope) rewritten(id, session []byte) []byte {
	var edits []edit
	if id != nil && e.id.there() {
		edits = append(edits, edit{e.id, id})
	}
	if session != nil && e.session.there() {
		edits = append(edits, edit{e.session, session})
	}
	switch {
	case len(edits) == 0:
		return e.raw
	case len(edits) == 2 && edits[0].at.from > edits[1].at.from:
		edits[0], edits[1] = edits[1], edits[0]
	}
	return e.with(edits...)
}

// setMember is an object with one member set, wherever it stands.
func setMember(object []byte, name string, value []byte) []byte {
	e := envelope{raw: object}
	all := span{0, len(object)}
	if at := e.find(all, name); at.there() {
		return e.with(edit{at, value})
	}
	key := quote(name)
	out := make([]byte, 0, len(object)+len(key)+len(value)+2)
	end := bytes.LastIndexByte(object, '}')
	out = append(out, object[:end]...)
	if len(bytes.TrimSpace(object[1:end])) > 0 {
		out = append(out, ',')
	}
	out = append(append(append(out, key...), ':'), value...)
	return append(out, object[end:]...)
}

// eachMember calls f with the members of the object that begins at from, until
// it returns false. raw is valid JSON.
func eachMember(raw []byte, from int, f func(name string, value span) bool) {
	for i := skipSpace(raw, from+1); raw[i] != '}'; {
		end := skipValue(raw, i)
		name := raw[i+1 : end-1]
		key := string(name)
		if bytes.IndexByte(name, '\\') >= 0 {
			key = text(raw[i:end])
		}
		i = skipSpace(raw, skipSpace(raw, end)+1) // the colon
		end = skipValue(raw, i)
		if !f(key, span{i, end}) {
			return
		}
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

// skipValue is where the value ends that begins at i.
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

// text is the value of a JSON string, or "".
func text(raw []byte) string {
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

// quote is a string as JSON, without the escapes that only HTML needs.
func quote(s string) []byte { return encode(s) }

// encode is json.Marshal without the escapes that only HTML needs, for values
// that always have a JSON form.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// idKey makes ids equal that a peer may take for equal: "\u0061" and "a", 1.0
// and 1.
func idKey(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return `"` + text(raw)
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	return string(raw)
}

// notification is a message without params' content being known before.
func notification(method string, params any) []byte {
	return encode(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}

// failureOf is the answer to a request that failed outside of the agent.
func failureOf(id []byte, code int, message string, data any) []byte {
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

// answerOf is the answer to a request of the agent's.
func answerOf(id, result []byte) []byte {
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
	}{"2.0", id, result})
}
