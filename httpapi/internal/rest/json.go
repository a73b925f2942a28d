package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// DecodeJSON is like json.Unmarshal but stricter. It also returns an error for text
// that is nested too deep or has too many values, for text that is not Unicode, and for
// members whose names differ only in case: one would be validated and the other used. huma calls
// it twice, first with an *any that it validates; members that are null are
// left out of that.
func DecodeJSON(data []byte, v any) error {
	tree, first := v.(*any)
	if first {
		if err := errors.Join(CheckText(data), jsonlimit.CheckBody(data)); err != nil {
			return err
		}
	}
	err := json.Unmarshal(data, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return errors.New(memberPrefix + wrong.Field + ": must be a number that fits: " + rangeOf(wrong.Type))
	}
	if err != nil || !first {
		return err
	}
	return normalize(*tree)
}

// DecodeInto reads JSON as huma does for operations whose body is always JSON.
func DecodeInto(schemas huma.Registry, schema *huma.Schema, data []byte, v any) error {
	return DecodePart(schemas, schema, "body", data, v)
}

// DecodePart is like DecodeInto for the part of a body at a location, such as "body.list[3]".
func DecodePart(schemas huma.Registry, schema *huma.Schema, location string, data []byte, v any) error {
	if len(data) == 0 {
		data = []byte("{}")
	}
	var tree any
	if err := DecodeJSON(data, &tree); err != nil {
		return Rejected(InvalidRequest, []*huma.ErrorDetail{{Location: location, Message: err.Error()}})
	}
	k := InvalidRequest
	k.Status = http.StatusUnprocessableEntity
	result := &huma.ValidateResult{}
	path := huma.NewPathBuffer([]byte{}, 0)
	path.Push(location)
	huma.Validate(schemas, schema, path, huma.ModeWriteToServer, tree, result)
	var details []*huma.ErrorDetail
	for _, err := range result.Errors {
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			details = append(details, d.ErrorDetail())
		}
	}
	if len(details) > 0 {
		return Rejected(k, details)
	}
	if err := DecodeJSON(data, v); err != nil {
		return Rejected(k, []*huma.ErrorDetail{{Location: location, Message: err.Error()}})
	}
	return nil
}

// memberPrefix begins the text of an error that is about one member of a body.
const memberPrefix = "member "

// rangeOf returns which whole numbers a type holds: what huma's validation leaves
// to the decoding is numbers that are too large or too small.
func rangeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int32:
		return "a whole one from -2147483648 to 2147483647"
	case reflect.Uint32:
		return "a whole one from 0 to 4294967295"
	default:
		return t.Kind().String()
	}
}

// memberOf finds the member of the body that a message of huma's, or of
// decodeJSON's, is about.
func memberOf(message string) (field, text string) {
	if rest, ok := strings.CutPrefix(message, memberPrefix); ok {
		field, text, _ = strings.Cut(rest, ": ")
		return field, text
	}
	rest, ok := strings.CutPrefix(message, "expected required property ")
	if name, found := strings.CutSuffix(rest, " to be present"); ok && found {
		return name, "is required"
	}
	return "", message
}

// CheckText refuses what encoding/json would replace by U+FFFD: bytes that are
// no UTF-8, and halves of surrogate pairs (RFC 8259, sections 8.1 and 8.2).
func CheckText(data []byte) error {
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

// normalize removes members that are null, and rejects names that differ only in
// case: encoding/json and huma take one for the other.
func normalize(tree any) error {
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
			} else if err := normalize(v); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range t {
			if err := normalize(v); err != nil {
				return err
			}
		}
	}
	return nil
}
