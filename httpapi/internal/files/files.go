package files

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// RootQuery says what a path is relative to.
type RootQuery struct {
	Root string `query:"root" doc:"Name of the root that relative paths are below; defaults to the home directory"`
}

// PathQuery names a file. Its bytes need not be UTF-8: a percent-encoded %FF is
// that byte.
type PathQuery struct {
	Path string `query:"path" required:"true" doc:"Path: absolute, or relative to root or the home directory; ~ is the home directory. Any byte except NUL may be percent-encoded"`
	RootQuery
}

// FolderQuery names a directory.
type FolderQuery struct {
	Path string `query:"path" doc:"Path: absolute, or relative to root or the home directory; ~ is the home directory. Defaults to the home directory"`
	RootQuery
}

// in is the file system that the request's token reaches, with relative paths where the
// request says.
func (a *area) in(ctx context.Context, q RootQuery) (*filesystem.FS, error) {
	files, err := a.of(rest.GrantOf(ctx))
	if err != nil || q.Root == "" {
		return files, err
	}
	return files.In(q.Root)
}

// FileFacts are the members that every file has.
type FileFacts struct {
	EntryType filesystem.Type `json:"entryType" enum:"file,directory" doc:"directory, or file for everything else"`
	Size      int64           `json:"size"`
	Modified  string          `json:"modified,omitempty" format:"date-time"`

	Link         bool   `json:"link,omitempty" doc:"Whether it is a symbolic link"`
	Target       string `json:"target,omitempty" doc:"Target of the link, as stored"`
	TargetBase64 string `json:"targetBase64,omitempty" doc:"Target in base64, if it is not UTF-8"`

	Mode string  `json:"mode,omitempty" doc:"Permission bits in octal; requires details=true" example:"0644"`
	Kind string  `json:"kind,omitempty" enum:"file,directory,link,fifo,socket,device,unknown" doc:"Exact type; requires details=true"`
	UID  *uint32 `json:"uid,omitempty" doc:"User id of the owner; requires details=true"`
	GID  *uint32 `json:"gid,omitempty" doc:"Group id; requires details=true"`
	ETag string  `json:"etag,omitempty" doc:"Entity tag of the content; requires details=true"`
}

// FilePath is a path in an answer.
type FilePath struct {
	Path       string `json:"path" doc:"Absolute path"`
	PathBase64 string `json:"pathBase64,omitempty" doc:"Path in base64, if it is not UTF-8"`
}

type fileStat struct {
	FilePath
	FileFacts
}

// FileEntry is an entry of a directory.
type FileEntry struct {
	Name       string `json:"name"`
	NameBase64 string `json:"nameBase64,omitempty" doc:"Name in base64, if it is not UTF-8"`
	FilePath
	FileFacts
}

func pathOf(path string) FilePath {
	var p FilePath
	p.Path, p.PathBase64 = rest.JSONText(path)
	return p
}

// factsOf describes an entry, with more than the reference does if details are
// asked for.
func factsOf(e filesystem.Entry, details bool) FileFacts {
	f := FileFacts{EntryType: e.Type, Size: e.Size, Modified: rfc3339(e.Modified), Link: e.Link}
	f.Target, f.TargetBase64 = rest.JSONText(e.Target)
	if details {
		f.Mode, f.Kind, f.ETag = fmt.Sprintf("%04o", e.Mode.Perm()), kindOf(e), e.ETag()
		f.UID, f.GID = &e.UID, &e.GID
	}
	return f
}

func statOf(e filesystem.Entry, details bool) fileStat {
	return fileStat{pathOf(e.Path), factsOf(e, details)}
}

func entryOf(e filesystem.Entry, details bool) FileEntry {
	f := FileEntry{FilePath: pathOf(e.Path), FileFacts: factsOf(e, details)}
	f.Name, f.NameBase64 = rest.JSONText(e.Name)
	return f
}

// rfc3339 is a time in the form that the reference has.
func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999999+00:00")
}

// kindOf is what the mode says of an entry.
func kindOf(e filesystem.Entry) string {
	switch m := e.Mode; {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "directory"
	case m&os.ModeSymlink != 0:
		return "link"
	case m&os.ModeNamedPipe != 0:
		return "fifo"
	case m&os.ModeSocket != 0:
		return "socket"
	case m&os.ModeDevice != 0:
		return "device"
	}
	return "unknown"
}

// parseMode reads permission bits: 644, 0755, 0o600. Empty: none are given.
func parseMode(given string) (os.FileMode, error) {
	if given == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(given, "0o"), 8, 32)
	if err != nil || n == 0 || n > 0o777 {
		return 0, rest.InvalidRequest.Problem("invalid request: mode must be octal permission bits from 1 to 777, as in 644").With("field", "mode")
	}
	return os.FileMode(n), nil
}

// area is the area of files.
type area struct {
	rest.Group
	*Reach
	watches chan struct{} // has an element for each watch that enterWatch counts
}

// Register adds the routes of files.
func Register(api *rest.API, reach *Reach) {
	a := &area{rest.Group{API: api, Problem: Problem}, reach, make(chan struct{}, maxWatches)}

	r := rest.Route{Tag: "Files", Scope: grants.ScopeSupervise, Errors: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}}
	a.registerEntries(r)
	a.registerReading(r)
	a.registerWriting(r)
	a.registerTree(r)
	a.registerArchives(r)
	a.registerWatch(r)
	a.registerSearch(r)
}
