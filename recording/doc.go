// Package recording records desktops as video files that survive anything, with
// what happened in them.
package recording
