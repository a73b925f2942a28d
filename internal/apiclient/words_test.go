package apiclient

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommands records the command of every route, to show what a change of the API
// does to scripts.
func TestCommands(t *testing.T) {
	t.Parallel()
	d := apiDocument(t)
	var b strings.Builder
	for _, op := range d.operations {
		fmt.Fprintf(&b, "%-6s %s\n       %s\n", op.method, op.path, op.signature())
		for _, f := range op.fields() {
			if f.place != inPath {
				fmt.Fprintf(&b, "         --%s %s\n", f.flag, f.Type())
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
	for _, op := range d.operations {
		if len(op.words) == 0 && op.path != "/" {
			t.Errorf("%s %s has no words", op.method, op.path)
		}
		if found, used := d.find(op.words); len(op.words) > 0 && (found != op || used != len(op.words)) {
			t.Errorf("%q: %+v", op.words, found)
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
			for _, op := range paths(t, c.paths).operations {
				got = append(got, strings.Join(op.words, " "))
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKebab(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"x": "x", "clickCount": "click-count", "show_cursor": "show-cursor", "If-None-Match": "if-none-match",
		"webrtcPortRange": "webrtc-port-range", "bodyURL": "body-url", "maxBytes2": "max-bytes2", "": "", "mcpName": "mcp-name", "already-kebab": "already-kebab",
	} {
		if got := kebab(name); got != want {
			t.Errorf("kebab(%q) = %q, want %q", name, got, want)
		}
		if got := kebab(kebab(name)); got != want {
			t.Errorf("kebab twice of %q = %q, want %q", name, got, want)
		}
	}
}

// TestAliases wants each command of sandbox-agent to call the route that
// its usual command calls.
func TestAliases(t *testing.T) {
	t.Parallel()
	d := apiDocument(t)
	for alias, command := range aliases {
		words := strings.Fields(command)
		want, _ := d.find(words)
		got, used := d.find(append(strings.Fields(alias), "id"))
		if got == nil || want == nil || used != len(strings.Fields(alias)) || got.method != want.method || got.path != want.path {
			t.Errorf("%q is %+v, want %+v", alias, got, want)
		}
	}
}
