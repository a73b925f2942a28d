// Package docs has the documentation of deskhand, for programs that show or serve it.
//
// # Usage
//
// [Files] is a file system of Markdown pages, whose README.md lists them by subject.
// [Site] returns the same pages as a web site.
package docs

import "embed"

// Files has the Markdown pages of this folder, of decisions and of deploy.
//
//go:embed *.md decisions/*.md deploy/*.md
var Files embed.FS
