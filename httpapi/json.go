package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeJSON is json.Unmarshal, but stricter: text that is no Unicode is an
// error instead of becoming other text, and names of members have one spelling.
// huma calls it twice, first with an *any that it validates; members that are
// null are left out of that.
func decodeJSON(data []byte, v any) error {
	if tree, ok := v.(*any); ok {
		if err := checkText(data); err != nil {
			return err
		}
		if err := json.Unmarshal(data, v); err != nil {
			return err
		}
		dropNulls(*tree)
		return nil
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	if misspelt(tree, reflect.TypeOf(v)) {
		var err error
		if data, err = marshalJSON(tree); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, v)
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

func dropNulls(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(t, func(_ string, v any) bool { return v == nil })
		for _, v := range t {
			dropNulls(v)
		}
	case []any:
		for _, v := range t {
			dropNulls(v)
		}
	}
}

// misspelt takes those members out of tree that encoding/json would take for
// others of t's, as it does not mind their case: they have not been validated.
// It says whether there were any.
func misspelt(tree any, t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	found := false
	switch tree := tree.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return false
		}
		known := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				known[name] = f.Type
			}
		}
		maps.DeleteFunc(tree, func(name string, v any) bool {
			if t, ok := known[name]; ok {
				found = misspelt(v, t) || found
				return false
			}
			for other := range known {
				if strings.EqualFold(name, other) {
					found = true
					return true
				}
			}
			return false
		})
	case []any:
		if t.Kind() == reflect.Slice {
			for _, v := range tree {
				found = misspelt(v, t.Elem()) || found
			}
		}
	}
	return found
}
