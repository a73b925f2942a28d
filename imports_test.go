package deskhand_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/deskhand/deskhand"

// importRules say who may import what. A package is named by its folder; a
// pattern that ends in "/..." means everything below it as well. Tests are left
// out where the rule says so: they drive the real thing from outside.
var importRules = []struct {
	what  string   // import path, or the beginning of one before "/..."
	only  []string // folders that may import it
	tests bool     // tests anywhere may import it, too
}{
	{"os/exec", []string{"internal/supervise", "internal/testx11", "internal/testbrowser", "internal/testpostgres", "internal/testspace", "internal/bench", "internal/benchsettle"}, true},
	{"log", []string{"internal/x11"}, true},
	{"C", []string{"desktop/robot"}, false},
	{"github.com/go-vgo/...", []string{"desktop/robot"}, false},
	{"github.com/jezek/xgb/...", []string{"internal/x11/..."}, false},
	{"github.com/jezek/xgbutil/...", nil, false}, // GPL-3.0
	{"github.com/BurntSushi/...", nil, true},     // the independent client of tests
	{"github.com/google/licensecheck", []string{"internal/notices"}, false},
	{"github.com/gofiber/...", []string{"httpapi/..."}, false},
	{"github.com/danielgtaylor/...", []string{"httpapi/..."}, false},
	{"github.com/valyala/...", []string{"httpapi/..."}, false},
	{"github.com/fasthttp/...", []string{"httpapi/..."}, false},
	{"github.com/yuin/...", []string{"docs"}, false},
	{"github.com/pion/...", []string{"webrtc/...", "internal/benchstream"}, true},
	{"github.com/chromedp/...", []string{"internal/testbrowser", "internal/benchkit"}, true},
	{"github.com/creack/...", []string{"process"}, true},
	{"github.com/jackc/...", []string{"agents/eventlog", "internal/testpostgres"}, true},
	{"modernc.org/...", []string{"agents/eventlog"}, true},
	{"github.com/godbus/...", []string{"desktop/accessibility"}, false},
	{"github.com/modelcontextprotocol/...", []string{"agents/computer", "agents/mockagent"}, true},
	{"github.com/thesyncim/...", []string{"webrtc"}, true},
	{"go.opentelemetry.io/otel/...", []string{"agents", "agents/computer", "httpapi/...", "internal/otlp"}, true},
	{"go.opentelemetry.io/otel/sdk/...", []string{"internal/otlp"}, true},
	{"go.opentelemetry.io/otel/exporters/...", []string{"internal/otlp"}, false},
	{"go.opentelemetry.io/proto/...", []string{"internal/otlp", "internal/testotlp"}, false},
	{"google.golang.org/grpc/...", nil, false},
	{"github.com/go-logr/...", []string{"internal/otlp"}, false},
	{"testing", []string{"internal/testx11", "internal/testbrowser", "internal/testpostgres", "internal/testspace", "internal/testrelease", "internal/testotlp"}, true},

	{module + "/desktop", []string{"desktop/robot", "desktop/accessibility", "desktop/activity", "desktop/batch", "desktop/browser", "desktop/fleet", "webrtc/...", "recording/...", "agents/...", "httpapi/...", "internal/benchsettle", "cmd/..."}, true},
	{module + "/desktop/secrets", []string{"httpapi/...", "cmd/..."}, true},
	{module + "/process", []string{"agents/...", "httpapi/...", "cmd/..."}, true},
	{module + "/filesystem", []string{"agents/...", "httpapi/...", "cmd/..."}, true},
	{module + "/desktop/fleet", []string{"httpapi/...", "cmd/..."}, true},
	{module + "/desktop/accessibility", []string{"desktop/fleet", "httpapi/...", "agents/...", "cmd/..."}, true},
	{module + "/webrtc/...", []string{"webrtc/...", "desktop/fleet", "httpapi/...", "cmd/..."}, true},
	{module + "/recording/...", []string{"recording/...", "desktop/fleet", "httpapi/...", "cmd/..."}, true},
	{module + "/agents/...", []string{"agents/...", "httpapi/...", "cmd/..."}, true},
	{module + "/httpapi/...", []string{"httpapi/...", "cmd/..."}, true},
	{module + "/internal/x11", []string{"desktop", "internal/testx11", "internal/benchstream"}, true},
	{module + "/internal/x11/quiesce", []string{"internal/x11"}, false},
	{module + "/internal/x11/request", []string{"internal/x11/..."}, false},
	{module + "/internal/testx11", nil, true},
	{module + "/internal/testbrowser", nil, true},
	{module + "/internal/testpostgres", nil, true},
	{module + "/internal/testrelease", nil, true},
	{module + "/internal/otlp", []string{"cmd/..."}, true},
	{module + "/internal/testotlp", nil, true},
}

// depsForbidden is what must not come along with a package that people embed.
var depsForbidden = map[string][]string{
	"desktop": {
		"go.opentelemetry.io/...", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/fasthttp/...", "github.com/pion/...",
		"github.com/chromedp/...", module + "/internal/testx11", module + "/process", module + "/filesystem", module + "/webrtc/...",
		module + "/recording/...", module + "/agents/...", module + "/httpapi/...",
	},
	"desktop/fleet": {
		"go.opentelemetry.io/...", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/fasthttp/...",
		"github.com/chromedp/...", module + "/internal/testx11", module + "/process", module + "/filesystem",
		module + "/agents/...", module + "/httpapi/...",
	},
	"process": {
		"go.opentelemetry.io/...", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/pion/...",
		"github.com/chromedp/...", module + "/internal/testx11", module + "/internal/x11", module + "/desktop", module + "/filesystem",
		module + "/webrtc/...", module + "/recording/...", module + "/agents/...", module + "/httpapi/...",
	},
	"recording": {
		"go.opentelemetry.io/...", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/pion/...",
		"github.com/chromedp/...", module + "/internal/testx11", module + "/process", module + "/filesystem",
		module + "/webrtc/...", module + "/agents/...", module + "/httpapi/...",
	},
	"agents": {
		"go.opentelemetry.io/otel/sdk/...", "go.opentelemetry.io/proto/...", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/pion/...",
		"github.com/chromedp/...", module + "/internal/testx11", module + "/webrtc/...", module + "/recording/...", module + "/httpapi/...",
	},
	"httpapi":      {"go.opentelemetry.io/otel/sdk/...", "go.opentelemetry.io/proto/...", "github.com/chromedp/...", module + "/internal/testx11"},
	"cmd/deskhand": {"google.golang.org/grpc/..."},
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == prefix || strings.HasPrefix(name, prefix+"/")
	}
	return name == pattern
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// goFiles calls f with the path of every Go file of the module, but for the programs in
// examples, which are as their readers' would be.
func goFiles(tb testing.TB, f func(file string)) {
	tb.Helper()
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && file != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" || e.Name() == "node_modules" || file == "examples"):
			return filepath.SkipDir
		case !e.IsDir() && strings.HasSuffix(file, ".go"):
			f(filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func TestImportDirections(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	files := 0
	goFiles(t, func(file string) {
		files++
		parsed, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		folder, isTest := path.Dir(file), strings.HasSuffix(file, "_test.go")
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			for _, rule := range importRules {
				allowed := matchesAny(rule.only, folder) || rule.tests && isTest || module+"/"+folder == name
				if matches(rule.what, name) && !allowed {
					t.Errorf("%s imports %s; only these may: %s (their tests and others': %v)",
						file, name, strings.Join(rule.only, ", "), rule.tests)
				}
			}
		}
	})
	if files < 10 {
		t.Errorf("only %d Go files found", files)
	}
}

// TestEmbeddedDependencies keeps what an embedder of a package gets small.
func TestEmbeddedDependencies(t *testing.T) {
	t.Parallel()
	for pkg, forbidden := range depsForbidden {
		cmd := exec.Command("go", "list", "-deps", "./"+pkg)
		stderr := new(strings.Builder)
		cmd.Stderr = stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("go list -deps ./%s: %v\n%s", pkg, err, stderr)
			continue
		}
		deps := strings.Fields(string(out))
		if !slices.Contains(deps, module+"/"+pkg) {
			t.Errorf("go list -deps ./%s does not list the package itself: %q", pkg, deps)
		}
		for _, dep := range deps {
			if matchesAny(forbidden, dep) {
				t.Errorf("./%s depends on %s", pkg, dep)
			}
		}
	}
}
