package configuration

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// FuzzConfigEntry checks that what is stored is valid, and stays as it is when it
// is stored again.
func FuzzConfigEntry(f *testing.F) {
	for _, text := range []string{
		`{"type":"local","command":"x"}`, `{"type":"stdio","command":["x"],"environment":{"a":"b"},"timeout":1,"later":[1,{"a":null}]}`,
		`{"type":"http","url":"u","envHttpHeaders":{},"oauth":false}`, `{"Type":"remote","URL":"u","headers":null}`,
		`{"sources":[{"type":"a","source":"b","more":1}]}`, `{"type":"local","command":"x","args":[],"ARGS":[]}`,
	} {
		f.Add(text)
	}
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	mcp := newMCPSchemas(registry)
	skills := newSkillsSchema(registry)
	f.Fuzz(func(t *testing.T, text string) {
		for _, check := range []func(json.RawMessage) (json.RawMessage, error){mcp.check, skills.check} {
			once, err := check(json.RawMessage(text))
			if err != nil {
				if p := (*rest.Problem)(nil); !errors.As(err, &p) {
					t.Fatalf("%q: %v is no Problem", text, err)
				}
				continue
			}
			twice, err := check(once)
			if err != nil || string(once) != string(twice) {
				t.Fatalf("%q = %s, and that = %s, %v", text, once, twice, err)
			}
		}
	})
}
