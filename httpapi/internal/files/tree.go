package files

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type (
	entriesInput struct {
		FolderQuery
		Recursive bool   `query:"recursive" doc:"List subdirectories too, each before its contents; links are not followed"`
		Depth     int64  `query:"depth" minimum:"0" maximum:"4096" doc:"With recursive: maximum depth; defaults to the server's limit"`
		Limit     int64  `query:"limit" minimum:"0" maximum:"1000000" doc:"Maximum number of entries; defaults to the server's limit, 100000"`
		After     string `query:"after" doc:"Continue after this entry; pass Deskhand-Next of the previous page"`
		Details   bool   `query:"details" doc:"Include mode, kind, owner and etag"`
	}
	entriesOutput struct {
		Next    string      `header:"Deskhand-Next" doc:"Value of after for the next page, with the same other parameters"`
		Link    string      `header:"Link" doc:"The next page, with rel=next (RFC 8288)"`
		Skipped string      `header:"Deskhand-Skipped" doc:"With recursive: number of directories that could not be read"`
		Body    []FileEntry `nullable:"false"`
	}
	statInput struct {
		PathQuery
		Follow  bool `query:"follow" default:"true" doc:"Follow a symbolic link; with false, describe the link, even if it is dangling"`
		Details bool `query:"details" doc:"Include mode, kind, owner and etag"`
	}
	statOutput struct {
		ETag string `header:"ETag" doc:"Entity tag of the content"`
		Body fileStat
	}
	rerenameInput struct {
		PathQuery
		Recursive bool `query:"recursive" doc:"Remove a directory and its contents"`
	}
	pathOutput struct{ Body FilePath }

	renameBody struct {
		From       string `json:"from,omitempty" doc:"Path to move"`
		FromBase64 string `json:"fromBase64,omitempty" contentEncoding:"base64" doc:"The path in base64, if it is not UTF-8"`
		To         string `json:"to,omitempty" doc:"New path itself, not its parent directory"`
		ToBase64   string `json:"toBase64,omitempty" contentEncoding:"base64" doc:"The path in base64, if it is not UTF-8"`
		Overwrite  bool   `json:"overwrite,omitempty" doc:"Replace an existing file, or a directory and its contents"`
	}
	renameInput struct {
		RootQuery
		Body renameBody
	}
	renameOutput struct {
		Body struct {
			From       string `json:"from" doc:"Absolute path"`
			FromBase64 string `json:"fromBase64,omitempty"`
			To         string `json:"to" doc:"Absolute path"`
			ToBase64   string `json:"toBase64,omitempty"`
		}
	}
)

func (a *area) registerEntries(r rest.Route) {
	list := r.Get("listEntries", "/v1/fs/entries", "List a directory").
		WithAbout("Entries are sorted by the bytes of their names. Symbolic links are not followed.")
	list.Large, list.UntilGone = true, true
	rest.Add(a.Group, list, a.listEntries)
	rest.Add(a.Group, r.Get("statFile", "/v1/fs/stat", "Get information about a file or directory"), a.statFile)
}

func (a *area) listEntries(ctx context.Context, in *entriesInput) (*entriesOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	// A path may have any bytes, a header and a query better not.
	after, err := base64.RawURLEncoding.DecodeString(in.After)
	if err != nil {
		return nil, rest.InvalidRequest.Problem("invalid request: after must be what Deskhand-Next said").With("field", "after")
	}
	page, err := files.List(ctx, in.Path, filesystem.ListOptions{
		Recursive: in.Recursive, Depth: int(in.Depth), Limit: int(in.Limit), After: string(after),
	})
	if err != nil {
		return nil, err
	}
	out := &entriesOutput{Body: make([]FileEntry, 0, len(page.Entries))}
	for _, e := range page.Entries {
		out.Body = append(out.Body, entryOf(e, in.Details))
	}
	if page.Next != "" {
		out.Next = base64.RawURLEncoding.EncodeToString([]byte(page.Next))
		out.Link = nextPage(in, out.Next)
	}
	if page.Skipped > 0 {
		out.Skipped = strconv.Itoa(page.Skipped)
	}
	return out, nil
}

// nextPage is the link to the page after this one. It is relative, so that it
// is right behind any proxy.
func nextPage(in *entriesInput, next string) string {
	q := url.Values{"after": {next}}
	for name, v := range map[string]string{"path": in.Path, "root": in.Root} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for name, v := range map[string]bool{"recursive": in.Recursive, "details": in.Details} {
		if v {
			q.Set(name, "true")
		}
	}
	for name, v := range map[string]int64{"depth": in.Depth, "limit": in.Limit} {
		if v > 0 {
			q.Set(name, strconv.FormatInt(v, 10))
		}
	}
	return "<?" + q.Encode() + `>; rel="next"`
}

func (a *area) statFile(ctx context.Context, in *statInput) (*statOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	stat := files.Stat
	if !in.Follow {
		stat = files.Lstat
	}
	e, err := stat(in.Path)
	if err != nil {
		return nil, err
	}
	return &statOutput{e.ETag(), statOf(e, in.Details)}, nil
}

func (a *area) registerTree(r rest.Route) {
	r = r.WithErrors(http.StatusConflict)
	remove := r.Delete("deleteEntry", "/v1/fs/entry", "Remove a file, a link or a directory").WithAbout("Symbolic links are not followed.")
	remove.Status, remove.UntilGone = http.StatusOK, true
	rest.Add(a.Group, remove, func(ctx context.Context, in *rerenameInput) (*pathOutput, error) {
		return a.atPath(ctx, in.PathQuery, func(files *filesystem.FS) error { return files.Remove(ctx, in.Path, in.Recursive) })
	})
	mkdir := r.Post("makeDirectory", "/v1/fs/mkdir", "Create a directory and its parents").WithAbout("Creating a directory that exists succeeds.")
	rest.Add(a.Group, mkdir, func(ctx context.Context, in *PathQuery) (*pathOutput, error) {
		return a.atPath(ctx, *in, func(files *filesystem.FS) error { return files.Mkdir(in.Path) })
	})
	move := r.Post("moveEntry", "/v1/fs/move", "Move a file, a link or a directory").
		WithAbout("Also moves between file systems. The source, and a target that is overwritten, are removed only after the copy is complete.")
	move.UntilGone = true
	rest.Add(a.Group, move, a.moveEntry)
}

// atPath does something to a path and answers with it.
func (a *area) atPath(ctx context.Context, q PathQuery, do func(*filesystem.FS) error) (*pathOutput, error) {
	files, err := a.in(ctx, q.RootQuery)
	if err != nil {
		return nil, err
	}
	if err := do(files); err != nil {
		return nil, err
	}
	path, err := files.Abs(q.Path)
	return &pathOutput{pathOf(path)}, err
}

func (a *area) moveEntry(ctx context.Context, in *renameInput) (*renameOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	from, err := eitherPath("from", in.Body.From, in.Body.FromBase64)
	if err != nil {
		return nil, err
	}
	to, err := eitherPath("to", in.Body.To, in.Body.ToBase64)
	if err != nil {
		return nil, err
	}
	if err := files.Move(ctx, from, to, filesystem.MoveOptions{Overwrite: in.Body.Overwrite}); err != nil {
		return nil, err
	}
	if from, err = files.Abs(from); err != nil {
		return nil, err
	}
	if to, err = files.Abs(to); err != nil {
		return nil, err
	}
	out := new(renameOutput)
	out.Body.From, out.Body.FromBase64 = rest.JSONText(from)
	out.Body.To, out.Body.ToBase64 = rest.JSONText(to)
	return out, nil
}

// eitherPath is a path of a body, which has it as text or as bytes.
func eitherPath(member, plain, encoded string) (string, error) {
	k := rest.InvalidRequest
	k.Status = http.StatusUnprocessableEntity
	refuse := func(field, message string) (string, error) {
		return "", rest.Rejected(k, []*huma.ErrorDetail{{Location: "body." + field, Message: message}})
	}
	switch {
	case encoded == "" && plain == "":
		return refuse(member, "is required")
	case encoded == "":
		return plain, nil
	case plain != "":
		return refuse(member+"Base64", "excludes "+member)
	}
	path, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return refuse(member+"Base64", "must be base64")
	}
	return string(path), nil
}
