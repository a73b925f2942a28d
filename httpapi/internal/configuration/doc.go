// Package configuration has the routes of the MCP servers and skills of a folder, and of
// their approval.
package configuration
