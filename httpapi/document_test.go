package httpapi

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestNamesAreCamelCase looks at every member and every parameter of the
// document.
func TestNamesAreCamelCase(t *testing.T) {
	t.Parallel()
	var doc any
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	camel := regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	old := []string{"show_cursor", "no_cache", "already_installed", "include_raw", "session_id"}   // so that older clients work
	old = append(old, "Browser", "Protocol-Version", "User-Agent", "V8-Version", "WebKit-Version") // as Chromium names them
	found := 0
	check := func(name string) {
		found++
		if !camel.MatchString(name) && !slices.Contains(old, name) {
			t.Errorf("%q is not in camel case", name)
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if members, ok := v["properties"].(map[string]any); ok {
				for name := range members {
					check(name)
				}
			}
			if name, ok := v["name"].(string); ok && v["type"] != "apiKey" && (v["in"] == "query" || v["in"] == "path") {
				check(name)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(doc)
	if found < 100 {
		t.Errorf("only %d names found", found)
	}
}

// TestSchemasDescribeAnswers checks answers against the document's schemas, as
// JSON Schema 2020-12, which OpenAPI 3.1 uses.
func TestSchemasDescribeAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{
		{path: mainPath + "/status"},
		{path: "/v1/desktops"},
		{path: "/v1/health"},
		{path: mainPath + "/screenshot"}, // problems, too
		{path: mainPath + "/screenshot?scale=7"},
		{path: mainPath + "/mouse/move", body: `{"x":""}`},
	} {
		a := s.do(t, c)
		path, _, _ := strings.Cut(c.path, "?")
		op := doc.Paths.Value(path).GetOperation(a.Request.Method)
		response := op.Responses.Status(a.StatusCode)
		if response == nil {
			t.Errorf("%s %s: %d is not documented", a.Request.Method, path, a.StatusCode)
			continue
		}
		media := response.Value.Content.Get(a.Header.Get("Content-Type"))
		if media == nil {
			t.Errorf("%s %s: %d of %s is not documented", a.Request.Method, path, a.StatusCode, a.Header.Get("Content-Type"))
			continue
		}
		if err := doc.ValidateSchemaJSON(media.Schema.Value, a.json(t), openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s %s: %s: %v", a.Request.Method, path, a.body, err)
		}
		if err := doc.ValidateSchemaJSON(media.Schema.Value, map[string]any{}, openapi3.EnableJSONSchema2020()); err == nil {
			t.Errorf("%s %s: {} passes as well", a.Request.Method, path)
		}
	}
}

// TestOpenOperations checks that all of /v1 and of OpenComputer's API needs a token, the
// metrics, and /json/version for clients of the DevTools protocol, and nothing else.
func TestOpenOperations(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	media := 0
	for path, item := range s.rest.Huma.OpenAPI().Paths {
		for method, op := range rest.Operations(item) {
			if open := len(op.Security) == 0; open == (path == "/json/version" || path == "/metrics" || strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/opencomputer/")) {
				t.Errorf("%s %s: open is %v", method, path, open)
			}
			inQuery := slices.ContainsFunc(op.Security, func(alternative map[string][]string) bool { _, ok := alternative[rest.QueryScheme]; return ok })
			if !inQuery {
				continue
			}
			media++
			if method != "GET" && !strings.Contains(path, "/stream/whep") {
				t.Errorf("%s %s takes the token in its URL", method, path)
			}
		}
	}
	if media == 0 {
		t.Error("no operation takes the token in its URL")
	}
}
