package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// parse reads the text of a file. Unlike encoding/json it rejects text that is not UTF-8, and
// a name that is given twice.
func parse(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	if err := jsonlimit.CheckLimits(text, jsonlimit.MaxDepth+1, jsonlimit.MaxValues); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	switch first, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("is empty; an object without entries is {}")
	case err != nil:
		return nil, err
	case first != json.Delim('{'):
		return nil, errors.New("is not a JSON object")
	}
	entries := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, cutShort(err)
		}
		name, ok := token.(string)
		if !ok { // impossible: the decoder accepts strings only
			return nil, fmt.Errorf("has %v in place of a name", token)
		}
		if _, ok := entries[name]; ok {
			return nil, fmt.Errorf("has two entries named %.100q", name)
		}
		if len(entries) == maxEntries {
			return nil, fmt.Errorf("has more than %d entries", maxEntries)
		}
		var entry json.RawMessage
		if err := d.Decode(&entry); err != nil {
			return nil, cutShort(err)
		}
		entries[name] = entry
	}
	if _, err := d.Token(); err != nil { // the }
		return nil, cutShort(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more text after its object")
	}
	return entries, nil
}

// cutShort replaces the error for a text that ends too early.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("ends in the middle")
	}
	return err
}

const indent = 2

// format returns the text of a file: sorted by name, indented by two spaces, and without the
// escapes for HTML.
func format(entries map[string]json.RawMessage) ([]byte, error) {
	size := len("{}\n")
	for name, entry := range entries {
		size += len(name) + len(`"": ,`) + 1 + indent + jsonlimit.Indented(entry, indent, 1)
	}
	if size > MaxSize || len(entries) > maxEntries { // before memory is allocated for the indentation, which may be most of the text
		return nil, ErrTooLarge
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", strings.Repeat(" ", indent))
	if err := e.Encode(entries); err != nil {
		return nil, err
	}
	if b.Len() > MaxSize {
		return nil, ErrTooLarge
	}
	return b.Bytes(), nil
}
