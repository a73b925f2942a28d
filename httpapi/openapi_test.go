package httpapi

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// newServer returns a server without a listener.
func newServer(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.StateDir == "" {
		cfg.StateDir = t.TempDir()
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestDocumentIsTheGoldenFile(t *testing.T) {
	t.Parallel()
	var got []byte
	newServer(t, Config{also: func(s *Server) {
		s.rest.FinishDocument()
		var err error
		if got, err = json.MarshalIndent(s.rest.Huma.OpenAPI(), "", "  "); err != nil {
			t.Error(err)
		}
		got = append(got, '\n')
	}})
	const golden = "testdata/openapi.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("the API has changed; if that is meant, run go test ./httpapi -update (-want +got):\n%s", diff)
	}
}

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi = %s, want 3.1", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRoutesAreDocumented compares both ways: a route that is not in the
// document ships unseen, and a documented one that is not there is a lie.
func TestRoutesAreDocumented(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	var routes, documented []string
	for _, r := range s.rest.Router().GetRoutes(true) {
		// HEAD goes with GET. The page's files, the documentation and OpenCode's API are not in the document.
		// The APIs of other products' clients are in their own documents.
		other := strings.HasPrefix(r.Path, "/opencode") || strings.HasPrefix(r.Path, "/opencomputer/api/")
		if r.Method == fiber.MethodHead || other || strings.HasPrefix(r.Path, "/ui") || strings.HasPrefix(r.Path, "/docs") || r.Path == "/llms.txt" {
			continue
		}
		if len(r.Path) > 1 && strings.HasSuffix(r.Path, "/") {
			continue // the same route with a slash, as Playwright asks
		}
		parts := strings.Split(r.Path, "/")
		for i, p := range parts {
			if name, ok := strings.CutPrefix(p, ":"); ok {
				parts[i] = "{" + name + "}"
			}
		}
		routes = append(routes, r.Method+" "+strings.Join(parts, "/"))
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method := range item {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	if diff := cmp.Diff(documented, routes); diff != "" {
		t.Errorf("routes differ from the document (-document +routes):\n%s", diff)
	}
	if len(routes) < 70 {
		t.Errorf("only %d routes", len(routes))
	}
}

func TestDocumentIsServedToAll(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	a := s.do(t, call{path: "/openapi.json", anon: true}).want(t, 200)
	if !bytes.Equal(a.body, OpenAPI()) {
		t.Error("what is served is not the document")
	}
}

// TestOperationIDs checks what generated clients make method names of.
func TestOperationIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for path, item := range newServer(t, Config{}).rest.Huma.OpenAPI().Paths {
		for method, op := range rest.Operations(item) {
			where := method + " " + path
			if other := seen[op.OperationID]; other != "" || op.OperationID == "" {
				t.Errorf("%s and %s: operationId %q", where, other, op.OperationID)
			}
			seen[op.OperationID] = where
			if op.Summary == "" {
				t.Errorf("%s: no summary", where)
			}
		}
	}
}
