package opencode

import (
	"strings"

	"github.com/deskhand/deskhand/agents/universal"
)

// changedFiles is the files that the agent reported to have changed.
type changedFiles struct {
	byPath map[string]*FileDiff
	large  map[string]bool // paths of files whose texts are left out
	paths  []string        // in the order of their first change
	bytes  int             // of the texts
}

func newChangedFiles() changedFiles {
	return changedFiles{byPath: map[string]*FileDiff{}, large: map[string]bool{}}
}

// all returns the changes, one for each file.
func (f *changedFiles) all() []FileDiff {
	all := make([]FileDiff, 0, len(f.paths))
	for _, path := range f.paths {
		all = append(all, *f.byPath[path])
	}
	return all
}

// record records a change. It returns false for a path that is too long and for a file beyond
// the limit.
func (f *changedFiles) record(c content) bool {
	d := f.byPath[c.Path]
	if len(c.Path) > maxPath || d == nil && len(f.paths) == maxFiles {
		return false
	}
	before, status := "", "added"
	if c.OldText != nil {
		before, status = *c.OldText, "modified"
	}
	if d == nil {
		d = &FileDiff{File: c.Path, Before: before, Status: status}
		f.byPath[c.Path] = d
		f.paths = append(f.paths, c.Path)
	} else {
		f.bytes -= d.size()
	}
	f.change(d, c)
	f.bytes += d.size()
	return true
}

// change changes the text of a file as a tool call did. It leaves all texts out if they are too
// large.
func (f *changedFiles) change(d *FileDiff, c content) {
	if f.large[d.File] {
		return
	}
	if c.OldText != nil && d.After != *c.OldText && strings.Contains(d.After, *c.OldText) {
		// The call has only the lines that changed.
		c.NewText = strings.Replace(d.After, *c.OldText, c.NewText, 1)
	}
	if d.After = c.NewText; len(d.Before)+len(d.After) <= maxFile {
		d.Patch = universal.Diff(c.Path, d.Before, d.After)
		d.Additions, d.Deletions = countLines(d.Patch)
	}
	if len(d.Before)+len(d.After) > maxFile || f.bytes+d.size() > maxDiffs {
		f.large[d.File] = true
		d.Before, d.After, d.Patch = "", "", ""
	}
}

// countLines counts the lines that a patch adds and deletes.
func countLines(patch string) (added, deleted int) {
	for i, line := range strings.Split(patch, "\n") {
		switch {
		case i < 2: // the names
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			deleted++
		}
	}
	return added, deleted
}
