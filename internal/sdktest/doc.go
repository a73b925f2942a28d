// Package sdktest proves that programs written for the published TypeScript SDK
// work against deskhand unchanged.
//
// Its tests build cmd/deskhand, start it, and run the scripts in sdk/ with node:
//
//   - desktop.test.mjs calls every desktop method of sandbox-agent 0.4.2 except the live
//     stream.
//   - host.test.mjs calls every method of processes, terminals, files and configuration.
//   - sessions.test.mjs calls every method of agents and their sessions, with the mock
//     agent, on connections that break and a server that is killed.
//   - acp.test.mjs uses the same agent with the clients of the Agent Client Protocol's
//     package, by HTTP and by WebSocket.
//
// The scripts ask the SDK for its methods, and check effects with xterm, xev, xclip,
// xwininfo, the disk and /proc. Two more tests open the terminal and the viewer of
// @sandbox-agent/react in a browser. The packages are installed from npm by the lock file
// in sdk/, once per user, into a cache directory.
//
// TestGenerators runs client generators and linters on the OpenAPI document: the npm
// packages in generators/, and oapi-codegen, whose module is testdata/go.
//
// TestAdapters executes calls of the computer tools of Anthropic, OpenAI and Gemini, and
// checks calls and results against the types of the packages in adapters/. TestExamples runs
// the programs in examples/ with a scripted model.
//
// # Usage
//
//	go test ./internal/sdktest
//	SDKTEST_REFERENCE=1 go test ./internal/sdktest
//
// The second form runs the same scripts against the reference server, the
// binary that npm has beside the SDK, which proves the scripts themselves.
// Faults of that server are skipped by name. It gets this tree's mock agent, because its
// own has no sessions.
//
// # What else uses it
//
// [Install] and [Start] are exported for the benchmark of the same two servers.
//
// # Requirements
//
// node 20 or later, npm, Chromium and, at the first run, the npm registry. The reference
// server needs xdotool, ImageMagick and dbus-launch.
package sdktest
