package deskhand_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecture = "docs/ARCHITECTURE.md"

// TestArchitectureLength keeps the page to one that a newcomer reads whole.
func TestArchitectureLength(t *testing.T) {
	t.Parallel()
	const mostLines, mostSteps = 120, 8
	steps := 0
	for i, line := range strings.Split(strings.TrimSuffix(read(t, architecture), "\n"), "\n") {
		if i == mostLines {
			t.Errorf("%s has more than %d lines; move what is about one package into that package's comment", architecture, mostLines)
		}
		switch {
		case strings.HasPrefix(line, "#"):
			steps = 0
		case regexp.MustCompile(`^\d+\. `).MatchString(line):
			if steps++; steps > mostSteps {
				t.Errorf("%s:%d: a way has more than %d steps", architecture, i+1, mostSteps)
			}
		}
	}
}

var (
	codeLink = regexp.MustCompile("\\[`([^`]+)`\\]\\(([^)]+)\\)")
	code     = regexp.MustCompile("`([^`]+)`")
	apiRoute = regexp.MustCompile(`^(GET|POST|PUT|DELETE) (/\S+)$`)
)

// TestArchitectureNames checks that the code has every name on the page. A name is a
// link to the file that declares it, to a file, or to a package. Only routes and the
// packages of the table are named without one.
func TestArchitectureNames(t *testing.T) {
	t.Parallel()
	page := read(t, architecture)
	links := codeLink.FindAllStringSubmatch(page, -1)
	if len(links) < 50 {
		t.Fatalf("%s has only %d links to code", architecture, len(links))
	}
	packages := map[string]bool{}
	for _, m := range links {
		name, target := m[1], path.Join("docs", m[2])
		info, err := os.Stat(target)
		switch {
		case err != nil:
			t.Errorf("%s: %s: %v", architecture, name, err)
		case name == target:
			packages[name] = info.IsDir()
		case info.IsDir() || path.Base(target) == name:
			if path.Base(target) != name {
				t.Errorf("%s: %s is linked to the folder %s", architecture, name, target)
			}
		case strings.HasSuffix(target, ".go"):
			if !slices.Contains(declared(t, target), name) {
				t.Errorf("%s: %s does not declare %s", architecture, target, name)
			}
		default:
			checkScript(t, target, name)
		}
	}
	api := read(t, "httpapi/testdata/openapi.json")
	for _, m := range code.FindAllStringSubmatch(codeLink.ReplaceAllString(page, ""), -1) {
		r := apiRoute.FindStringSubmatch(m[1])
		switch {
		case packages[m[1]]:
		case r == nil:
			t.Errorf("%s: `%s` is no link, no route and no package of the table", architecture, m[1])
		case !strings.Contains(api, `"`+r[2]+`": {`):
			t.Errorf("%s: there is no route %s", architecture, r[2])
		}
	}
}

// checkScript checks that a script of the page has a class, or a class's method.
func checkScript(t *testing.T, file, name string) {
	t.Helper()
	class, method, _ := strings.Cut(name, ".")
	text := read(t, file)
	if !strings.Contains(text, "class "+class+" ") || method != "" && !regexp.MustCompile(`(?m)^  (async )?`+method+`\(`).MatchString(text) {
		t.Errorf("%s: %s does not declare %s", architecture, file, name)
	}
}

// declared returns the names of the functions, methods (Type.Method) and types that a
// Go file declares.
func declared(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	return names
}

// receiver returns the type of a method and a dot, and "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if ident, ok := typ.(*ast.Ident); ok {
		return ident.Name + "."
	}
	return ""
}

// TestArchitectureImports compares the table of packages with what they import. A row
// has all importers, except the packages of internal that the page does not name. A
// package that the page names outside the table may be imported by all.
func TestArchitectureImports(t *testing.T) {
	t.Parallel()
	page := read(t, architecture)
	row := regexp.MustCompile("(?m)^\\| \\[`([^`]+)`\\]\\([^)]+\\) \\|.*\\|([^|]*)\\|$")
	var order []string
	want, got := map[string][]string{}, map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		order = append(order, m[1])
		for _, by := range code.FindAllStringSubmatch(m[2], -1) {
			want[m[1]] = append(want[m[1]], by[1])
		}
	}
	named := func(pkg string) bool { return strings.Contains(page, "[`"+pkg+"`](../"+pkg+")") }
	goFiles(t, func(file string) {
		folder := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || folder == "." || strings.HasPrefix(folder, "internal/") && !named(folder) {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range f.Imports {
			pkg, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			if ours && !slices.Contains(got[pkg], folder) {
				got[pkg] = append(got[pkg], folder)
			}
			if ours && slices.Contains(order, pkg) && slices.Index(order, pkg) < slices.Index(order, folder) {
				t.Errorf("%s: %s imports %s, which is above it", architecture, folder, pkg)
			}
		}
		if !named(folder) {
			t.Errorf("%s does not name %s", architecture, folder)
		}
	})
	for pkg := range got {
		if !named(pkg) {
			t.Errorf("%s does not name %s", architecture, pkg)
		}
	}
	for _, pkg := range order {
		if slices.Sort(got[pkg]); !slices.Equal(got[pkg], want[pkg]) {
			t.Errorf("%s: %s is imported by %q, but its row says %q", architecture, pkg, got[pkg], want[pkg])
		}
	}
}
