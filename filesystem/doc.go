// Package filesystem reads, writes, moves, watches, searches, packs and unpacks
// files below roots that it cannot leave.
package filesystem
