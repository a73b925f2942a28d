// Package benchkit is what the commands that measure have in common: the program
// to measure, the machine, what a process used, and how figures are written.
//
// # Requirements
//
// Linux's /proc; for [Build] the go command and, if it is to name the version,
// git.
package benchkit
