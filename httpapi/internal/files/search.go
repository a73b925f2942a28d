package files

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type searchInput struct {
	FolderQuery
	Glob       string          `query:"glob" doc:"Pattern for paths below the directory: * matches anything except a slash, ** any number of directories, {a,b} either" example:"**/*.go"`
	Text       string          `query:"text" doc:"Text that files must contain"`
	Regexp     string          `query:"regexp" doc:"Regular expression (RE2) that a line must match; excludes text"`
	IgnoreCase bool            `query:"ignoreCase" doc:"Ignore the case of text or regexp"`
	Type       filesystem.Type `query:"type" enum:"file,directory" doc:"Type of entries; symbolic links are files"`
	Hidden     bool            `query:"hidden" doc:"Include names that begin with a dot"`
	Depth      int64           `query:"depth" minimum:"0" maximum:"4096" doc:"Maximum depth; defaults to the server's limit"`
	Limit      int64           `query:"limit" minimum:"0" maximum:"100000" doc:"Maximum number of matches, and of their lines; defaults to 1000"`
	MaxBytes   int64           `query:"maxFileBytes" minimum:"0" maximum:"1073741824" doc:"Maximum size of files to search; defaults to 16 MiB"`
	TimeoutMS  int64           `query:"timeoutMs" minimum:"0" maximum:"300000" doc:"Time after which the search returns what it found; defaults to 30000"`
}

type (
	searchOutput struct{ Body SearchBody }
	// SearchBody is what was found.
	SearchBody struct {
		Matches   []searchMatch    `json:"matches" nullable:"false" doc:"Matches sorted by path, one directory after another"`
		Truncated bool             `json:"truncated" doc:"Whether a limit was reached, so that there may be more matches"`
		Limit     filesystem.Limit `json:"limit,omitempty" enum:"results,entries,bytes,time" doc:"Limit that was reached"`
		Entries   int              `json:"entries" doc:"Number of visited entries"`
		Files     int              `json:"files" doc:"Number of files read"`
		Bytes     int64            `json:"bytes" doc:"Number of bytes read"`
		Skipped   searchSkipped    `json:"skipped" doc:"Counts of entries that were not searched"`
	}
	searchMatch struct {
		FileEntry
		Lines []searchLine `json:"lines,omitempty" nullable:"false" doc:"Matching lines"`
	}
	searchLine struct {
		Number int    `json:"number" doc:"Line number, starting at 1"`
		Column int    `json:"column" doc:"Column of the first match in characters, starting at 1"`
		Text   string `json:"text" doc:"Line, or the part of a long line around the match"`
		Cut    bool   `json:"cut,omitempty" doc:"Whether text is only a part of the line"`
	}
	searchSkipped struct {
		Binary     int `json:"binary" doc:"Number of binary files"`
		TooLarge   int `json:"tooLarge" doc:"Number of files larger than maxFileBytes"`
		Unreadable int `json:"unreadable" doc:"Number of files and directories that could not be read"`
	}
)

func (a *area) registerSearch(r rest.Route) {
	search := r.Get("searchFiles", "/v1/fs/search", "Find files by name and content").
		WithAbout("Symbolic links are not followed. A search that reaches a limit returns what it found.")
	search.Large, search.UntilGone = true, true
	rest.Add(a.Group, search, a.searchFiles)
}

func (a *area) searchFiles(ctx context.Context, in *searchInput) (*searchOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	found, err := files.Search(ctx, in.Path, filesystem.SearchOptions{
		Glob: in.Glob, Text: in.Text, Regexp: in.Regexp, IgnoreCase: in.IgnoreCase, Type: in.Type, Hidden: in.Hidden,
		MaxDepth: int(in.Depth), MaxResults: int(in.Limit), MaxFileSize: in.MaxBytes,
		Timeout: time.Duration(in.TimeoutMS) * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	body := SearchBody{
		Matches: make([]searchMatch, 0, len(found.Matches)), Truncated: found.Truncated, Limit: found.Limit,
		Entries: found.Entries, Files: found.Files, Bytes: found.Bytes,
		Skipped: searchSkipped{found.Binary, found.TooLarge, found.Unreadable},
	}
	for _, m := range found.Matches {
		match := searchMatch{FileEntry: entryOf(m.Entry, false)}
		for _, l := range m.Lines {
			match.Lines = append(match.Lines, searchLine{l.Number, l.Column, l.Text, l.Cut})
		}
		body.Matches = append(body.Matches, match)
	}
	return &searchOutput{body}, nil
}
