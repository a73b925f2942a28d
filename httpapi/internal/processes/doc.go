// Package processes has the routes of programs that clients start: their output, input,
// terminals and limits.
package processes
