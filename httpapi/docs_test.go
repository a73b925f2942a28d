package httpapi

import (
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/docs"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

var (
	hrefs    = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	ids      = regexp.MustCompile(` id="([^"]*)"`)
	mdTarget = regexp.MustCompile(`\]\(([^)]*)\)`)
)

// docsCrawler follows the links of the documentation.
type docsCrawler struct {
	t     *testing.T
	s     *testServer
	pages map[string]string // the answers by path
}

// get returns what a path of the server answers to a client without a token.
func (d *docsCrawler) get(from, at string) string {
	d.t.Helper()
	if text, ok := d.pages[at]; ok {
		return text
	}
	a := d.s.do(d.t, call{path: at, anon: true})
	if a.StatusCode != http.StatusOK {
		d.t.Errorf("%s links to %s: %d", from, at, a.StatusCode)
	}
	d.pages[at] = string(a.body)
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") && strings.HasPrefix(at, "/docs/") {
		for _, m := range hrefs.FindAllStringSubmatch(d.pages[at], -1) {
			d.follow(at, m[1])
		}
	}
	return d.pages[at]
}

// follow checks a link of a page.
func (d *docsCrawler) follow(from, link string) {
	d.t.Helper()
	base, err := url.Parse(from)
	if err != nil {
		d.t.Fatal(err)
	}
	to, err := base.Parse(strings.ReplaceAll(link, "&#43;", "+"))
	switch {
	case err != nil:
		d.t.Errorf("%s: %v", from, err)
	case to.Host != "":
		if path.Ext(to.Path) == ".md" && strings.Contains(to.Path, "/docs/") {
			d.t.Errorf("%s leaves the server for %s", from, link)
		}
	default:
		text := d.get(from, to.Path)
		if to.Fragment != "" && !slices.ContainsFunc(ids.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] == to.Fragment }) {
			d.t.Errorf("%s: %s has no id %q", from, to.Path, to.Fragment)
		}
	}
}

// TestDocsPages: every page of docs is served as HTML and as Markdown, and is reached
// from the first, and every link and anchor resolves.
func TestDocsPages(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	d := &docsCrawler{t, s, map[string]string{}}
	d.get("the test", "/docs/")
	err := fs.WalkDir(docs.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		at := "/docs/" + strings.TrimSuffix(strings.TrimSuffix(name, ".md"), "README")
		if d.pages[at] == "" {
			t.Errorf("no link leads to %s", at)
		}
		source, err := docs.Files.ReadFile(name)
		a := s.do(t, call{path: "/docs/" + name, anon: true}).want(t, 200)
		if string(a.body) != string(source) || a.Header.Get("Content-Type") != "text/markdown; charset=utf-8" {
			t.Errorf("%s: %d of %d bytes, %v", name, len(a.body), len(source), a.Header)
		}
		return err
	})
	if err != nil || len(d.pages) < 50 {
		t.Errorf("%d pages, %v", len(d.pages), err)
	}

	index := s.do(t, call{path: "/llms.txt", anon: true}).want(t, 200)
	if !regexp.MustCompile(`^# deskhand\n\n> deskhand gives [^\n]+\n\n(.|\n)*\n## Run it\n\n- \[[^\n]+\]\(docs/deploy/local.md\): `).Match(index.body) {
		t.Errorf("llms.txt:\n%s", index.body)
	}
	links := mdTarget.FindAllStringSubmatch(string(index.body), -1)
	for _, m := range links {
		d.follow("/llms.txt", m[1])
	}
	if len(links) < 20 {
		t.Errorf("llms.txt has %d links", len(links))
	}
}

// TestDocsHTTP: the documentation is sent as the page's files are.
func TestDocsHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	for at, to := range map[string]string{"/docs": "/docs/", "/docs/decisions": "/docs/decisions/"} {
		if a := s.do(t, call{path: at, anon: true}).want(t, 200); a.Request.URL.Path != to {
			t.Errorf("%s leads to %q", at, a.Request.URL.Path)
		}
	}
	for _, at := range []string{"/docs/", "/docs/security", "/docs/security.md", "/docs/style.css", "/llms.txt"} {
		a := s.do(t, call{path: at, anon: true}).want(t, 200)
		policy := a.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "script") {
			t.Errorf("%s: policy %q", at, policy)
		}
		head := s.do(t, call{method: http.MethodHead, path: at, anon: true}).want(t, 200)
		if len(head.body) != 0 || head.Header.Get("ETag") == "" || head.Header.Get("ETag") != a.Header.Get("ETag") {
			t.Errorf("HEAD %s: %d bytes, %v", at, len(head.body), head.Header)
		}
		again := s.do(t, call{path: at, anon: true, header: map[string]string{"If-None-Match": a.Header.Get("ETag")}})
		if again.want(t, 304); len(again.body) != 0 {
			t.Errorf("%s is sent again", at)
		}
	}
	for _, at := range []string{"/docs/nothing", "/docs/nothing.md", "/docs/../go.mod", "/docs/security/", "/docs/page.html"} {
		a := s.do(t, call{path: at, anon: true}).want(t, 404)
		if a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", at, a.Header)
		}
	}
	if document := s.do(t, call{path: "/openapi.json", anon: true}); strings.Contains(string(document.body), `"/docs`) {
		t.Error("the OpenAPI document has the documentation")
	}
}

// TestDocsInBrowser: pages break no rule of their policy, and fit into narrow windows.
func TestDocsInBrowser(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{})
	ctx := testbrowser.OpenStrict(t, s.url+"/docs/")
	testbrowser.Do(ctx, t, chromedp.Click(`a[href$="first-steps"]`))
	testbrowser.Holds(ctx, t, `Boolean(document.querySelector("h1")?.textContent.startsWith("First steps") && document.querySelector("[aria-current]")?.textContent === "First steps")`)
	for _, at := range []string{"", "security", "performance", "ARCHITECTURE", "deploy/nginx", "decisions/"} {
		for _, width := range []int64{320, 1200} {
			testbrowser.Do(ctx, t, chromedp.EmulateViewport(width, 800), chromedp.Navigate(s.url+"/docs/"+at))
			testbrowser.Holds(ctx, t, `document.documentElement.scrollWidth <= innerWidth && getComputedStyle(document.body).margin === "0px"`)
		}
	}
}
