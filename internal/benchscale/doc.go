// Package benchscale measures deskhand with many desktops, viewers, sessions and servers, and
// prints a table for each part.
//
// # Usage
//
//	make bench-scale
//	make bench-scale ARGS='-part idle,busy -cycles 300 -kill 30s'
//
// Without -scale only the tests of this package's own code run.
//
// # What it measures
//
//   - idle: the start of 100 desktops, one after the other, and their processor time and memory
//     while nothing uses them.
//   - busy: 20 desktops in which text scrolls, with one viewer each. The age of a picture is the
//     time from its capture to its arrival.
//   - viewers: the server's processor time for 50 viewers of one desktop and for one.
//   - sessions: 1000 sessions of the mock agent, of which 200 prompt once a second.
//   - cycles: 10 000 starts and ends of desktops, viewers and sessions, and what the server keeps.
//   - servers: three servers on one Postgres, of which one is killed every ten seconds.
//
// [Load] is the load of the last part. It also checks that nothing is lost.
//
// # Requirements
//
// The programs that the tests require, and Postgres. The servers listen on loopback.
package benchscale
