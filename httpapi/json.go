package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeJSON is json.Unmarshal, but stricter: text that is no Unicode is an
// error instead of becoming other text, and so are members whose names differ
// only in case, of which one would be validated and the other used. huma calls
// it twice, first with an *any that it validates; members that are null are
// left out of that.
func decodeJSON(data []byte, v any) error {
	tree, first := v.(*any)
	if first {
		if err := checkText(data); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(data, v); err != nil || !first {
		return err
	}
	return tidy(*tree)
}

// checkText refuses what encoding/json would replace by U+FFFD: bytes that are
// no UTF-8, and halves of surrogate pairs (RFC 8259, sections 8.1 and 8.2).
func checkText(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("must be UTF-8")
	}
	for rest := data; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 || at+1 >= len(rest) {
			return nil
		}
		high := escaped(rest[at:])
		rest = rest[at+2:]
		if !utf16.IsSurrogate(high) {
			continue
		}
		low := escaped(rest[min(4, len(rest)):])
		if utf16.DecodeRune(high, low) == utf8.RuneError {
			return errors.New("must not have half of a surrogate pair in a string")
		}
		rest = rest[10:]
	}
}

// escaped is the code unit of the \uXXXX that text begins with, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// tidy removes members that are null, and refuses names that differ only in
// case: encoding/json and huma take one for the other.
func tidy(tree any) error {
	switch t := tree.(type) {
	case map[string]any:
		names := make(map[string]string, len(t))
		for name, v := range t {
			folded := strings.ToLower(strings.ToUpper(name)) // as strings.EqualFold has it
			if other, ok := names[folded]; ok {
				return fmt.Errorf("must not have both %q and %q", min(name, other), max(name, other))
			}
			names[folded] = name
			if v == nil {
				delete(t, name)
			} else if err := tidy(v); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range t {
			if err := tidy(v); err != nil {
				return err
			}
		}
	}
	return nil
}
