// Package opencode has the routes of OpenCode's server API under /opencode, for its SDK and its
// terminal UI. All APIs share the sessions.
package opencode
