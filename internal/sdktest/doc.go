// Package sdktest proves that programs written for the published TypeScript SDK
// work against deskhand unchanged.
//
// Its tests build cmd/deskhand, start it, and run the scripts in sdk/ with node:
// desktop.test.mjs calls every desktop method of sandbox-agent 0.4.2, apart from
// the live stream, host.test.mjs every method of processes, terminals, files and
// configuration, and sessions.test.mjs every method of agents and their sessions,
// with the mock agent, on connections that break and a server that is killed.
// acp.test.mjs has the clients of the Agent Client Protocol's own package, by
// HTTP and by WebSocket, talk to the same agent.
// They ask the SDK which methods it has, and look at the effects with what knows
// nothing of deskhand: xterm, xev, xclip, xwininfo, the disk, /proc. Two more have
// the terminal and the viewer of @sandbox-agent/react in a browser. The packages
// are installed from npm by the lock file in sdk/, once per user, into a cache
// directory.
//
// TestGenerators runs client generators and linters on the OpenAPI document: the npm
// packages in generators/, and oapi-codegen, whose module is testdata/go.
//
// # Usage
//
//	go test ./internal/sdktest
//	SDKTEST_REFERENCE=1 go test ./internal/sdktest
//
// The second form runs the same scripts against the reference server, the
// binary that npm has beside the SDK, which proves the scripts themselves.
// Faults of that server are skipped by name. It gets this tree's mock agent: its
// own knows nothing of sessions.
//
// # What else uses it
//
// [Install] and [Start] are exported for the benchmark, which needs the same
// two servers.
//
// # Requirements
//
// node 20 or later, npm, Chromium and, at the first run, the npm registry; for the
// reference server also xdotool, ImageMagick and dbus-launch.
package sdktest
