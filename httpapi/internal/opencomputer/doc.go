// Package opencomputer has the routes of OpenComputer's API: sandboxes with their programs,
// terminals and files below /opencomputer/api, where its SDK begins, and agent sessions there and
// below /opencomputer. All APIs share the sessions. A sandbox is a directory of this machine. For
// agent sessions any name is a sandbox, which keeps them apart.
package opencomputer
