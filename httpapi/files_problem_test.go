package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// What is wrong with the disk is told alike by whoever needs one, and its title
// fits its status.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&filesystem.Error{Op: "write", Path: "/a", Kind: filesystem.ErrNoSpace, Err: syscall.ENOSPC},
		fmt.Errorf("start: %w", recording.ErrNoSpace),
		acpError(fmt.Errorf("commit: %w", eventlog.ErrFull), "srv", "mock"),
		configProblem(&fs.PathError{Op: "write", Path: "/a", Err: syscall.EDQUOT}),
	} {
		p := problemOf(err, rest.Internal)
		if p.Status != http.StatusInsufficientStorage || p.Title != http.StatusText(p.Status) || p.Code != "stream_error" {
			t.Errorf("%v = %+v", err, p)
		}
	}
}

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
