// Package benchkit holds what the commands that measure share: the program to
// measure, the machine, the resources of a process, and the format of figures.
//
// # Requirements
//
// Linux's /proc. [Binary] needs the go command, and git to name the version.
package benchkit
