// Package opencomputer has the routes of OpenComputer's API for agent sessions. All APIs
// share the sessions. A sandbox is a name that keeps sessions apart.
package opencomputer
