package opencode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

const (
	mostFileBytes   = 16 << 20 // of a file in an answer
	mostTextMatches = 100
	mostLineBytes   = 4 << 10 // of a line in an answer
	mostFileMatches = 100
	mostNames       = 50_000 // that a search for a name looks at
)

// fileNode is an entry of a directory.
type fileNode struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Absolute string `json:"absolute"`
	Type     string `json:"type"`
	Ignored  bool   `json:"ignored"`
}

// fileContent is the content of a file.
type fileContent struct {
	Type     string `json:"type"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
}

// textMatch is a line that a pattern matches.
type textMatch struct {
	Path       textOf     `json:"path"`
	Lines      textOf     `json:"lines"`
	LineNumber int        `json:"line_number"`
	Offset     int        `json:"absolute_offset"`
	Submatches []submatch `json:"submatches"`
}

type textOf struct {
	Text string `json:"text"`
}

type submatch struct {
	Match textOf `json:"match"`
	Start int    `json:"start"`
	End   int    `json:"end"`
}

func (m *machine) fileRoutes() []route {
	return []route{
		get("/file", m.listFiles),
		get("/file/content", m.readFile),
		get("/find", m.findText),
		get("/find/file", m.findFiles),
	}
}

func (m *machine) listFiles(c *call) (any, error) {
	dir := c.at(c.Query("path"))
	page, err := m.Files.List(c.ctx, dir, filesystem.ListOptions{})
	if err != nil {
		return nil, err
	}
	ignored := m.ignored(c.ctx, dir, page.Entries)
	nodes := make([]fileNode, 0, len(page.Entries))
	for _, e := range page.Entries {
		nodes = append(nodes, fileNode{
			rest.JSONPath(e.Name), rest.JSONPath(relative(c.directory, e.Path)), rest.JSONPath(e.Path), string(e.Type), ignored[e.Name],
		})
	}
	return nodes, nil
}

// ignored returns the names that git ignores.
func (m *machine) ignored(ctx context.Context, dir string, entries []filesystem.Entry) map[string]bool {
	out := map[string]bool{}
	if projectOf(dir).id == globalProject || len(entries) == 0 {
		return out
	}
	const most = 1000 // a command line is bounded
	args := []string{"check-ignore", "--"}
	for _, e := range entries[:min(len(entries), most)] {
		args = append(args, e.Name)
	}
	found, err := m.git(ctx, dir, nil, args...)
	if err != nil {
		return out // git fails if it ignores none
	}
	for name := range strings.Lines(string(found)) {
		out[strings.TrimSuffix(name, "\n")] = true
	}
	return out
}

// relative returns a path as a client of dir names it.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return rel
	}
	return path
}

// read returns the content of a file. It returns a problem if the file is larger than an answer
// may be.
func (m *machine) read(path string) (_ []byte, err error) {
	f, err := m.Files.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, mostFileBytes+1))
	if err == nil && len(text) > mostFileBytes {
		err = rest.TooLarge(mostFileBytes)
	}
	return text, err
}

func (m *machine) readFile(c *call) (any, error) {
	path, err := c.required("path")
	if err != nil {
		return nil, err
	}
	text, err := m.read(c.at(path))
	if err != nil {
		return nil, err
	}
	if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
		return fileContent{Type: "text", Content: string(text)}, nil
	}
	return fileContent{"binary", base64.StdEncoding.EncodeToString(text), "base64", http.DetectContentType(text)}, nil
}

func (m *machine) findText(c *call) (any, error) {
	text, err := c.required("pattern")
	if err != nil {
		return nil, err
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, rest.InvalidField("pattern", "pattern must be a regular expression (RE2): "+err.Error())
	}
	found, err := m.Files.Search(c.ctx, c.directory, filesystem.SearchOptions{Regexp: text, MaxResults: mostTextMatches, MaxFileSize: mostFileBytes})
	if err != nil {
		return nil, err
	}
	all := []textMatch{}
	for _, f := range found.Matches {
		numbers := map[int]bool{}
		for _, l := range f.Lines {
			numbers[l.Number] = true
		}
		text, err := m.read(f.Entry.Path)
		if err != nil {
			continue // it was removed meanwhile
		}
		offset, number := 0, 0
		for line := range bytes.Lines(text) {
			if number++; numbers[number] {
				all = append(all, matchOf(pattern, relative(c.directory, f.Entry.Path), line, number, offset))
			}
			offset += len(line)
		}
	}
	return all, nil
}

// matchOf describes a line that a pattern matches. It has the beginning of a long line, and the
// matches in it.
func matchOf(pattern *regexp.Regexp, path string, line []byte, number, offset int) textMatch {
	const most = 10 // matches in one line
	line = line[:min(len(line), mostLineBytes)]
	m := textMatch{textOf{rest.JSONPath(path)}, textOf{strings.ToValidUTF8(string(line), "\uFFFD")}, number, offset, []submatch{}}
	for _, at := range pattern.FindAllIndex(bytes.TrimRight(line, "\r\n"), most) {
		m.Submatches = append(m.Submatches, submatch{textOf{strings.ToValidUTF8(string(line[at[0]:at[1]]), "\uFFFD")}, at[0], at[1]})
	}
	return m
}

// nameSearch says which paths a search for a name looks at, and how many it returns.
type nameSearch struct {
	query       string
	files, dirs bool
	limit       int
}

func (c *call) nameSearch() (n nameSearch, err error) {
	if n.query, err = c.required("query"); err != nil {
		return n, err
	}
	kind, dirs := c.Query("type"), c.Query("dirs")
	n.files, n.dirs, n.limit = kind != "directory", kind != "file" && dirs != "false", mostFileMatches
	if limit := c.Query("limit"); limit != "" {
		if n.limit, err = strconv.Atoi(limit); err != nil || n.limit < 1 || n.limit > 200 {
			return n, rest.InvalidField("limit", "limit must be a number from 1 to 200")
		}
	}
	return n, errors.Join(oneOf("type", cmp.Or(kind, "file"), "file", "directory"), oneOf("dirs", cmp.Or(dirs, "true"), "true", "false"))
}

// findFiles returns the paths that have the characters of the query in their order, the best
// matches first.
func (m *machine) findFiles(c *call) (any, error) {
	in, err := c.nameSearch()
	if err != nil {
		return nil, err
	}
	paths, err := m.names(c.ctx, c.directory, in)
	if err != nil {
		return nil, err
	}
	type match struct {
		path string
		cost int
	}
	var found []match
	for _, path := range paths {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		if cost, ok := costOf(strings.ToLower(path), strings.ToLower(in.query)); ok {
			found = append(found, match{path, cost})
		}
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.path, b.path)) })
	out := []string{}
	for _, f := range found[:min(len(found), in.limit)] {
		out = append(out, rest.JSONPath(f.path))
	}
	return out, nil
}

// names returns the paths in which a query is searched. Directories end with a slash.
func (m *machine) names(ctx context.Context, dir string, in nameSearch) (out []string, err error) {
	// git knows what it ignores.
	if listed, err := m.git(ctx, dir, nil, "ls-files", "--cached", "--others", "--exclude-standard", "-z"); err == nil {
		seen := map[string]bool{}
		for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
			if in.files && name != "" && !seen[name] {
				out = append(out, name)
			}
			seen[name] = true
			for d := filepath.Dir(name); in.dirs && d != "." && !seen[d+"/"]; d = filepath.Dir(d) {
				seen[d+"/"] = true
				out = append(out, d+"/")
			}
		}
		return out, nil
	}
	kind := filesystem.Type("")
	switch {
	case !in.dirs:
		kind = filesystem.TypeFile
	case !in.files:
		kind = filesystem.TypeDirectory
	}
	found, err := m.Files.Search(ctx, dir, filesystem.SearchOptions{Type: kind, MaxResults: mostNames, MaxEntries: mostNames})
	if err != nil {
		return nil, err
	}
	for _, f := range found.Matches {
		name := relative(dir, f.Entry.Path)
		if f.Entry.Type == filesystem.TypeDirectory {
			name += "/"
		}
		out = append(out, name)
	}
	return out, nil
}

// costOf returns how far a path is from a query: the length of the shortest part of its last
// element, or else of the whole path, that has all characters of the query in their order.
func costOf(path, query string) (int, bool) {
	const elsewhere = 1 << 16 // a match in the last element is better than any other
	base := filepath.Base(path)
	if n, ok := span(base, query); ok {
		return n*256 + min(len(base), 255), true
	}
	n, ok := span(path, query)
	return elsewhere + n*256 + min(len(path), 255), ok
}

// span returns the length of the shortest part of text that has all characters of query in
// their order.
func span(text, query string) (int, bool) {
	if query == "" {
		return 0, true
	}
	best := -1
	for from := 0; ; {
		// The part that ends first, and of those that end there the shortest.
		end, next := from, 0
		for ; end < len(text) && next < len(query); end++ {
			if text[end] == query[next] {
				next++
			}
		}
		if next < len(query) {
			return best, best >= 0
		}
		start := end
		for next > 0 {
			if start--; text[start] == query[next-1] {
				next--
			}
		}
		if best < 0 || end-start < best {
			best = end - start
		}
		from = start + 1
	}
}
