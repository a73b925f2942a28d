package folders

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Decode decodes an entry, or an object in it, into a struct. It returns an error if a member
// is given twice, or differs from the name of a field only by case. encoding/json accepts
// both, and other programs take the other value: the user who approves
// {"command": "safe", "Command": "other"} may be shown "safe" only.
func Decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		known = append(known, f.Tag.Get("json"))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil { // the brace, or null
		return err
	}
	given := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name := fmt.Sprint(token)
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
		switch {
		case i >= 0 && known[i] != name:
			return fmt.Errorf("member %q must be written %q", name, known[i])
		case given[name]:
			return fmt.Errorf("member %q is given twice", name)
		}
		given[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}
