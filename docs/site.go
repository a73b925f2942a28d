package docs

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// repository is where links out of the documentation lead.
const repository = "https://github.com/deskhand/deskhand/blob/HEAD/"

//go:embed page.html style.css
var assets embed.FS

// page is a Markdown file.
type page struct {
	name   string // from the folder of the documentation
	title  string
	source []byte
	tree   ast.Node
}

// section is a part of the navigation.
type section struct {
	Title string
	Links []link
}

// link is an entry of the navigation.
type link struct{ URL, Title, about, name string }

// Site returns the documentation as a web site. The keys are addresses below the site's
// root: "docs/" is README.md as HTML, "docs/security" another page, "docs/security.md" its
// Markdown, and "llms.txt" the index for language models. README.md gives the navigation. A
// folder without README.md gets a list of its pages.
func Site() (map[string][]byte, error) {
	pages, err := readPages(Files)
	if err != nil {
		return nil, err
	}
	style, err := assets.ReadFile("style.css")
	if err != nil {
		return nil, err
	}
	layout, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return nil, err
	}
	sections := navigation(pages)
	files := map[string][]byte{"docs/style.css": style, "llms.txt": llms(pages, sections)}
	for _, p := range pages {
		files["docs/"+p.name] = p.source
		if files["docs/"+address(p.name)], err = p.render(layout, pages["README.md"].title, sections); err != nil {
			return nil, fmt.Errorf("render %s: %w", p.name, err)
		}
	}
	return files, nil
}

// readPages parses all pages and adds the lists of folders.
func readPages(source fs.FS) (map[string]*page, error) {
	pages, lists := map[string]*page{}, map[string]*bytes.Buffer{}
	err := fs.WalkDir(source, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		data, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		p := newPage(name, data)
		pages[name] = p
		folder := path.Dir(name)
		if lists[folder] == nil {
			lists[folder] = new(bytes.Buffer)
			fmt.Fprintf(lists[folder], "# %s%s\n\n", strings.ToUpper(folder[:1]), folder[1:])
		}
		fmt.Fprintf(lists[folder], "* [%s](%s)\n", p.title, path.Base(name))
		return nil
	})
	for folder, list := range lists {
		if name := path.Join(folder, "README.md"); pages[name] == nil {
			pages[name] = newPage(name, list.Bytes())
		}
	}
	if pages["README.md"] == nil && err == nil {
		err = fmt.Errorf("the documentation has no README.md")
	}
	return pages, err
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func newPage(name string, source []byte) *page {
	p := &page{name: name, source: source, title: name}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	if h, ok := p.tree.FirstChild().(*ast.Heading); ok {
		p.title = p.text(h)
	}
	return p
}

// text returns the text of a node without its markup.
func (p *page) text(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(p.source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// navigation reads the sections and links of the first page. What follows a link in a row
// of a table says what the page is about.
func navigation(pages map[string]*page) []section {
	home := pages["README.md"]
	sections := []section{{Links: []link{{URL: "", Title: home.title, name: home.name}}}}
	_ = ast.Walk(home.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering && n.Level == 2 {
				sections = append(sections, section{Title: home.text(n)})
			}
		case *ast.Link:
			name := resolve(home.name, string(n.Destination))
			if pages[name] == nil {
				name = path.Join(name, "README.md")
			}
			if p := pages[name]; entering && p != nil {
				l := link{address(name), p.title, "", name}
				if cell, ok := n.Parent().(*extensionast.TableCell); ok && cell.NextSibling() != nil {
					l.about = home.text(cell.NextSibling())
				}
				last := &sections[len(sections)-1]
				last.Links = append(last.Links, l)
			}
		}
		return ast.WalkContinue, nil
	})
	return sections
}

// llms returns the index of the site in the format of llmstxt.org.
func llms(pages map[string]*page, sections []section) []byte {
	home := pages["README.md"]
	var b bytes.Buffer
	about := ""
	if p := home.tree.FirstChild(); p != nil && p.NextSibling() != nil {
		about = home.text(p.NextSibling())
	}
	fmt.Fprintf(&b, "# deskhand\n\n> %s\n\nThe OpenAPI document of this server is at [/openapi.json](openapi.json).\n", about)
	for _, s := range sections {
		title := s.Title
		if title == "" {
			title = home.title
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, l := range s.Links {
			fmt.Fprintf(&b, "- [%s](docs/%s)", l.Title, l.name)
			if l.about != "" {
				fmt.Fprintf(&b, ": %s", l.about)
			}
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// render returns the page as HTML. It changes the page's tree.
func (p *page) render(layout *template.Template, siteTitle string, sections []section) ([]byte, error) {
	var headings []*ast.Heading
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering {
				headings = append(headings, n)
			}
		case *ast.Link:
			if entering {
				n.Destination = []byte(href(p.name, string(n.Destination)))
			}
		}
		return ast.WalkContinue, nil
	})
	for _, h := range headings {
		appendAnchor(h)
	}
	var body, out bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.tree); err != nil {
		return nil, err
	}
	err := layout.Execute(&out, map[string]any{
		"Title": p.title, "SiteTitle": siteTitle, "URL": address(p.name), "Markdown": path.Base(p.name), "Sections": sections,
		"Root": "./" + strings.Repeat("../", strings.Count(p.name, "/")), "Body": template.HTML(body.String()), //nolint:gosec // made from our own text
	})
	return out.Bytes(), err
}

// appendAnchor adds a link to the heading itself.
func appendAnchor(h *ast.Heading) {
	id, ok := h.AttributeString("id")
	if !ok {
		return
	}
	a := ast.NewLink()
	a.Destination = append([]byte("#"), id.([]byte)...)
	a.SetAttributeString("class", []byte("anchor"))
	a.SetAttributeString("aria-label", []byte("Link to this section"))
	a.AppendChild(a, ast.NewString([]byte("#")))
	h.AppendChild(h, a)
}

// address returns what follows /docs/ in the address of a page.
func address(name string) string {
	if path.Base(name) == "README.md" {
		return strings.TrimSuffix(name, "README.md")
	}
	return strings.TrimSuffix(name, ".md")
}

// resolve returns the file that a link on a page leads to.
func resolve(page, destination string) string {
	name, _, _ := strings.Cut(destination, "#")
	return path.Join(path.Dir(page), name)
}

// href returns the link of the HTML page for one of the Markdown page: to another page,
// or to the repository if the file is not part of the documentation.
func href(page, destination string) string {
	name, fragment, found := strings.Cut(destination, "#")
	if name == "" || strings.Contains(name, ":") {
		return destination
	}
	if found {
		fragment = "#" + fragment
	}
	if outside, ok := strings.CutPrefix(resolve(page, name), "../"); ok {
		return repository + outside + fragment
	}
	switch {
	case path.Ext(name) == ".md":
		if name = address(name); name == "" {
			name = "./"
		}
	case !strings.HasSuffix(name, "/"):
		name += "/"
	}
	return name + fragment
}

// anchors makes the ids of headings as GitHub does.
type anchors map[string]int

// Generate returns the id of a heading with a text.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := a[id]
	a[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put notes an id that a heading has already.
func (a anchors) Put(value []byte) { a[string(value)]++ }
