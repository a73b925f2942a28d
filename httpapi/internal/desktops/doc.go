// Package desktops has the routes of desktops: their life, pictures, input, live view and
// recordings, and desktops as tools of agents.
//
// A route of a desktop exists twice, below /v1/desktop for the desktop main and below
// /v1/desktops/{desktop}. Its function finds the desktop with the id that the input has:
// [running] returns a running desktop, and a [fleet.Fleet] one that may be stopped.
package desktops
