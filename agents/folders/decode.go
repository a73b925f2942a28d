package folders

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Decode decodes an entry, or an object in it, into a struct. It returns an error if a member is
// given twice at any depth, or differs from the name of a field only by case. encoding/json
// accepts both, and other programs take the other value: a user who approves
// {"command": "safe", "Command": "other"} may see "safe" only.
func Decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		known = append(known, f.Tag.Get("json"))
	}
	return checkMembers(json.NewDecoder(bytes.NewReader(raw)), known)
}

// checkMembers checks the members of the next value of d, at all depths. known are the names of
// its own members.
func checkMembers(d *json.Decoder, known []string) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	brace, nested := start.(json.Delim)
	if !nested {
		return nil
	}
	given := map[string]bool{}
	for d.More() {
		if brace == '{' {
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
		}
		if err := checkMembers(d, nil); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end
	return err
}
