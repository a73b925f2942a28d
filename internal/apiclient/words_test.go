package apiclient

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommands shows how every route is called: who changes the API sees what
// that does to people's scripts.
func TestCommands(t *testing.T) {
	t.Parallel()
	d := apiDocument(t)
	var b strings.Builder
	for _, op := range d.Operations() {
		fmt.Fprintf(&b, "%-6s %s\n       %s\n", op.Method, op.Path, op.signature())
		for _, f := range op.fields() {
			if f.place != inPath {
				fmt.Fprintf(&b, "         --%s %s\n", f.flag, f.typeName())
			}
		}
	}
	golden(t, "commands.txt", b.String())
}

// TestEveryRouteHasWords wants all routes but the root to be reachable by words,
// and each by its own.
func TestEveryRouteHasWords(t *testing.T) {
	t.Parallel()
	d := apiDocument(t)
	for _, op := range d.Operations() {
		if len(op.Words) == 0 && op.Path != "/" {
			t.Errorf("%s %s has no words", op.Method, op.Path)
		}
		if found, used := d.find(op.Words); len(op.Words) > 0 && (found != op || used != len(op.Words)) {
			t.Errorf("%q: %+v", op.Words, found)
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(op.Path)
		if found, _ := d.match(op.Method, path); found != op {
			t.Errorf("%s %s is not found by its path", op.Method, op.Path)
		}
	}
}

// TestRules gives each rule of the package comment its cases.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		paths map[string]string
		want  []string
	}{
		"segments": {map[string]string{"/v1/a/b": "GET", "/c": "POST", "/": "GET"}, []string{"", "c", "a b"}},
		"actions":  {map[string]string{"/v1/a/run": "POST", "/v1/a/status": "GET"}, []string{"a run", "a status"}},
		"collection": {
			map[string]string{"/v1/agents": "GET", "/v1/agents/{agent}": "GET", "/v1/agents/{agent}/install": "POST"},
			[]string{"agents list", "agents get", "agents install"},
		},
		"whole collection": {
			map[string]string{"/v1/things": "GET POST", "/v1/things/{id}": "GET POST PUT PATCH DELETE"},
			[]string{"things list", "things create", "things get", "things post", "things put", "things update", "things delete"},
		},
		"without a single member": {
			map[string]string{"/v1/windows": "GET", "/v1/windows/{id}/focus": "POST", "/v1/windows/focused": "GET"},
			[]string{"windows list", "windows focused", "windows focus"},
		},
		"one thing": {map[string]string{"/v1/fs/file": "GET PUT", "/v1/fs/entry": "DELETE", "/v1/limits": "GET POST"}, []string{
			"fs entry delete", "fs file get", "fs file put", "limits get", "limits set",
		}},
		"nested":    {map[string]string{"/v1/a/{a}/b/{b}/c": "POST"}, []string{"a b c"}},
		"WebSocket": {map[string]string{"/v1/p/{id}/terminal/ws": "GET", "/v1/p/{id}/terminal/resize": "POST", "/ws": "GET"}, []string{"p terminal resize", "p terminal", "ws"}},
		"same words": {
			map[string]string{"/v1/a/focus": "POST", "/v1/a/{id}/focus": "POST"},
			[]string{"a focus", ""}, // the second is reached by its path
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, op := range paths(t, c.paths).Operations() {
				got = append(got, strings.Join(op.Words, " "))
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSuggestions(t *testing.T) {
	t.Parallel()
	d := apiDocument(t)
	for line, want := range map[string]string{
		"desktop mose click":                 "desktop mouse click",
		"desktop screensho":                  "desktop screenshot",
		"screenshot":                         "desktop screenshot",
		"process list":                       "processes list",
		"processes lst":                      "processes list",
		"processes start":                    "processes create",
		"clipboard get":                      "desktop clipboard get",
		"screenshot region":                  "desktop screenshot region",
		"helth":                              "health",
		"desktops main screenshot":           "desktops screenshot main",
		"desktops main windows 7 focus":      "desktops windows focus main 7",
		"processes proc_1":                   "processes get proc_1",
		"processes proc_1 logs":              "processes logs proc_1",
		"config mcp add":                     "config mcp put",
		"desktops rm":                        "desktops delete",
		"something that is nowhere near any": "",
	} {
		got := d.suggest(strings.Fields(line))
		if want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) || len(got) > 3 {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"list", "lst", 1}, {"a", "b", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	d := paths(t, map[string]string{"/v1/a/{id}": "GET", "/v1/a/config": "GET", "/v1/a/{id}/b/{n}": "GET POST"})
	for _, c := range []struct{ method, path, want, values string }{
		{"GET", "/v1/a/config", "/v1/a/config", "map[]"},
		{"GET", "/v1/a/x", "/v1/a/{id}", "map[id:x]"},
		{"POST", "/v1/a/x/b/7", "/v1/a/{id}/b/{n}", "map[id:x n:7]"},
		{"DELETE", "/v1/a/x", "", "map[]"},
		{"GET", "/v1/a/", "", "map[]"},
		{"GET", "/v1/a", "", "map[]"},
	} {
		op, values := d.match(c.method, c.path)
		got := ""
		if op != nil {
			got = op.Path
		}
		if got != c.want || fmt.Sprint(values) != c.values {
			t.Errorf("%s %s: %q %v", c.method, c.path, got, values)
		}
	}
}

func TestKebab(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"x": "x", "clickCount": "click-count", "show_cursor": "show-cursor", "If-None-Match": "if-none-match",
		"webrtcPortRange": "webrtc-port-range", "URLPath": "url-path", "bodyURL": "body-url", "maxBytes2": "max-bytes2",
		"a--b": "a-b", "_x": "x", "": "", "mcpName": "mcp-name", "already-kebab": "already-kebab",
	} {
		if got := kebab(name); got != want {
			t.Errorf("kebab(%q) = %q, want %q", name, got, want)
		}
		if got := kebab(kebab(name)); got != want {
			t.Errorf("kebab twice of %q = %q, want %q", name, got, want)
		}
	}
}

func TestEarlierCommands(t *testing.T) {
	t.Parallel()
	d := apiDocument(t)
	for old, words := range earlier {
		line := renamed([]string{old[0], old[1], "id", "more"})
		op, used := d.find(line)
		if op == nil || used != len(words) || len(line) != used+2 {
			t.Errorf("%q is %q, of which %d words name %+v", old, line, used, op)
		}
	}
	for _, args := range [][]string{nil, {"sessions"}, {"sessions", "list"}, {"send-message", "x"}} {
		if got := renamed(args); len(got) != len(args) {
			t.Errorf("%q became %q", args, got)
		}
	}
}
