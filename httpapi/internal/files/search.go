package files

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type searchInput struct {
	FolderQuery
	Glob       string          `query:"glob" doc:"Paths below the directory: * is anything but a slash, ** any number of directories, {a,b} one of them" example:"**/*.go"`
	Text       string          `query:"text" doc:"What files have to contain"`
	Regexp     string          `query:"regexp" doc:"The same as a regular expression (RE2), matched with each line; excludes text"`
	IgnoreCase bool            `query:"ignoreCase" doc:"Take no notice of upper and lower case in text or regexp"`
	Type       filesystem.Type `query:"type" enum:"file,directory" doc:"Only those; symbolic links are files"`
	Hidden     bool            `query:"hidden" doc:"Look at names that begin with a dot, too"`
	Depth      int64           `query:"depth" minimum:"0" maximum:"4096" doc:"How many levels to go down; as many as the server allows when left out"`
	Limit      int64           `query:"limit" minimum:"0" maximum:"100000" doc:"How many matches there may be, or lines of them; 1000 when left out"`
	MaxBytes   int64           `query:"maxFileBytes" minimum:"0" maximum:"1073741824" doc:"The largest file to look into; 16 MiB when left out"`
	TimeoutMS  int64           `query:"timeoutMs" minimum:"0" maximum:"300000" doc:"Answer with what was found by then; 30000 when left out"`
}

type (
	searchOutput struct{ Body SearchBody }
	// SearchBody is what was found.
	SearchBody struct {
		Matches   []searchMatch    `json:"matches" nullable:"false" doc:"Sorted by path, directory by directory"`
		Truncated bool             `json:"truncated" doc:"There may be more: a limit was reached"`
		Limit     filesystem.Limit `json:"limit,omitempty" enum:"results,entries,bytes,time" doc:"Which limit that was"`
		Entries   int              `json:"entries" doc:"How many entries were looked at"`
		Files     int              `json:"files" doc:"How many files were read"`
		Bytes     int64            `json:"bytes" doc:"How much was read of them"`
		Skipped   searchSkipped    `json:"skipped" doc:"What was not searched"`
	}
	searchMatch struct {
		FileEntry
		Lines []searchLine `json:"lines,omitempty" nullable:"false" doc:"Where the text was found"`
	}
	searchLine struct {
		Number int    `json:"number" doc:"Counts from 1"`
		Column int    `json:"column" doc:"Of the first match, in characters, counts from 1"`
		Text   string `json:"text" doc:"The line, or the part of a long one around the match"`
		Cut    bool   `json:"cut,omitempty" doc:"It is only a part of the line"`
	}
	searchSkipped struct {
		Binary     int `json:"binary" doc:"Files that are no text"`
		TooLarge   int `json:"tooLarge" doc:"Files larger than maxFileBytes"`
		Unreadable int `json:"unreadable" doc:"Files and directories that may not be read"`
	}
)

func (a *area) registerSearch(r rest.Route) {
	rest.Add(a.Group, r.Get("searchFiles", "/v1/fs/search", "Find files by name and content").
		WithAbout("Symbolic links are not followed. Reaching a limit is no error."), a.searchFiles)
}

func (a *area) searchFiles(ctx context.Context, in *searchInput) (*searchOutput, error) {
	files, err := a.in(in.RootQuery)
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
