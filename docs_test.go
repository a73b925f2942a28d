package deskhand_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageDocs wants a manual for every package: a comment that begins with
// what the package does, and a sentence for every exported name.
func TestPackageDocs(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	documented := map[string]bool{}
	goFiles(t, func(file string) {
		folder := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		documented[folder] = documented[folder] || f.Doc != nil
		if f.Doc != nil {
			checkPackageDoc(t, file, f)
		}
		for _, decl := range f.Decls {
			checkDecl(t, fset, decl)
		}
	})
	for folder, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", folder)
		}
	}
	if len(documented) < 3 {
		t.Errorf("only %d packages found", len(documented))
	}
}

func checkPackageDoc(t *testing.T, file string, f *ast.File) {
	t.Helper()
	want := "Package " + f.Name.Name + " "
	if f.Name.Name == "main" {
		want = "Command " + path.Base(path.Dir(file)) + " "
		if path.Dir(path.Dir(file)) != "cmd" {
			want = "" // a generator or a measuring program
		}
	}
	if !strings.HasPrefix(f.Doc.Text(), want) {
		t.Errorf("%s: the package comment does not begin with %q", file, want)
	}
}

// checkDecl wants a comment on exported names, and that a function's begins
// with its name, so that it reads well in every tool.
func checkDecl(t *testing.T, fset *token.FileSet, decl ast.Decl) {
	t.Helper()
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || !exportedReceiver(d) {
			return
		}
		if !strings.HasPrefix(d.Doc.Text(), d.Name.Name) {
			t.Errorf("%s: %s: no comment that begins with its name", fset.Position(d.Pos()), d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			name, doc := specDoc(spec)
			if name != "" && doc == "" && d.Doc.Text() == "" {
				t.Errorf("%s: %s: no comment", fset.Position(spec.Pos()), name)
			}
		}
	}
}

// specDoc returns the first exported name of a declaration and its comment.
func specDoc(spec ast.Spec) (name, doc string) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return s.Name.Name, s.Doc.Text() + s.Comment.Text()
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				return n.Name, s.Doc.Text() + s.Comment.Text()
			}
		}
	}
	return "", ""
}

// exportedReceiver says whether a function is one that a reader of the
// documentation sees: no method of an unexported type, and none that is there
// to satisfy a well-known interface and does what its name says.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	ident, ok := typ.(*ast.Ident)
	obvious := map[string]bool{"Error": true, "Unwrap": true, "String": true, "Is": true, "Len": true, "Less": true, "Swap": true}
	return ok && ident.IsExported() && !obvious[d.Name.Name]
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)

// TestLinks checks that what the documents point at within the repository is
// there, headings included.
func TestLinks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			name, heading, _ := strings.Cut(target, "#")
			name = path.Join(path.Dir(file), name)
			if strings.HasPrefix(target, "#") {
				name = file
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s: %s: %v", file, target, err)
			} else if heading != "" && !hasHeading(read(t, name), heading) {
				t.Errorf("%s: %s: no such heading", file, target)
			}
		}
	}
}

// hasHeading says whether a Markdown text has a heading with that anchor, as
// GitHub makes them.
func hasHeading(text, anchor string) bool {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		title = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		if strings.ReplaceAll(title, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestReadmeExample keeps the README's program the one that compiles and runs
// as the desktop package's example.
func TestReadmeExample(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	if m == nil {
		t.Fatal("README.md has no Go code")
	}
	var readme []string
	for line := range strings.Lines(m[1]) {
		readme = append(readme, strings.TrimSpace(line))
	}
	var example []string
	for line := range strings.Lines(read(t, "desktop/example_test.go")) {
		example = append(example, strings.TrimSpace(line))
	}
	got := strings.Join(body(readme), "\n")
	if got == "" || !strings.Contains(strings.Join(example, "\n"), got) {
		t.Errorf("README.md's program is not in desktop/example_test.go:\n%s", got)
	}
}

// body is what stands between the line "func main() {" and its end; the whole
// text when there is no such line.
func body(lines []string) []string {
	for i, line := range lines {
		if line == "func main() {" {
			lines = lines[i+1:]
			return lines[:len(lines)-1]
		}
	}
	return lines
}

// programs that tests may ask for without make test having to install them.
var everywhere = map[string]bool{"sh": true, "sleep": true, "go": true, "cat": true, "true": true, "false": true}

// TestRequiredProgramsAreInstalled compares what tests ask for with what make
// test installs.
func TestRequiredProgramsAreInstalled(t *testing.T) {
	t.Parallel()
	installs := map[string]bool{}
	for line := range strings.Lines(read(t, ".ci/install")) {
		if f := strings.Fields(line); len(f) == 2 {
			installs[f[0]] = true
		}
	}
	require := regexp.MustCompile(`testx11\.Require\(\w+((?:, "[^"]+")+)\)`)
	asked := 0
	goFiles(t, func(file string) {
		for _, m := range require.FindAllStringSubmatch(read(t, file), -1) {
			for _, program := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(m[1], -1) {
				asked++
				if !installs[program[1]] && !everywhere[program[1]] {
					t.Errorf("%s needs %s, which .ci/install does not install", file, program[1])
				}
			}
		}
	})
	if asked == 0 {
		t.Error("no test asks for a program")
	}
}

func read(tb testing.TB, file string) string {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
