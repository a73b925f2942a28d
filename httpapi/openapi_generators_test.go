package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestDocumentForGenerators checks what client generators and linters require of the
// document.
func TestDocumentForGenerators(t *testing.T) {
	t.Parallel()
	type parameter struct{ Name, In string }
	type response struct{ Headers map[string]any }
	var doc struct {
		Servers []struct{ URL string }
		Tags    []struct{ Name, Description string }
		Paths   map[string]map[string]struct {
			OperationID string
			Tags        []string
			Security    *[]map[string][]string
			Parameters  []parameter
			Responses   map[string]response
		}
	}
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Servers) == 0 || doc.Servers[0].URL != "/" {
		t.Errorf("servers: %v", doc.Servers)
	}
	unused := map[string]bool{}
	for _, tag := range doc.Tags {
		unused[tag.Name] = true
		if tag.Description == "" {
			t.Errorf("the tag %s has no description", tag.Name)
		}
	}
	known := maps.Clone(unused)
	names := strings.NewReplacer("_", "", "-", "")
	headers := strings.Split(strings.ToLower(rest.Exposed), ", ")
	safe := []string{"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"}
	for path, item := range doc.Paths {
		for _, op := range item {
			for _, tag := range op.Tags {
				delete(unused, tag)
				if !known[tag] {
					t.Errorf("%s: the document does not describe the tag %s", op.OperationID, tag)
				}
			}
			if op.Security == nil {
				t.Errorf("%s (%s) does not say which token it needs, if any", op.OperationID, path)
			}
			seen := map[string]string{}
			for _, p := range op.Parameters {
				name := strings.ToLower(names.Replace(p.Name))
				if before := seen[name]; before != "" {
					t.Errorf("%s has %s and %s", op.OperationID, before, p.Name)
				}
				seen[name] = p.Name
			}
			for _, r := range op.Responses {
				for name := range r.Headers {
					if name := strings.ToLower(name); !slices.Contains(headers, name) && !slices.Contains(safe, name) {
						t.Errorf("%s answers with %s, which pages of listed origins cannot read", op.OperationID, name)
					}
				}
			}
		}
	}
	for tag := range unused {
		t.Errorf("no operation has the tag %s", tag)
	}
}
