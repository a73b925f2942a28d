// Package process starts, watches and ends programs, with or without a
// terminal. Nothing that it starts outlives it.
package process
