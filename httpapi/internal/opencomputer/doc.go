// Package opencomputer has the routes of OpenComputer's API for agent sessions. The sessions
// are those of all APIs. A sandbox is a name that keeps sessions apart.
package opencomputer
