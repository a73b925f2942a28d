// Package registry lists coding agents, installs them, returns the command line of each, and
// finds the credentials that they would use.
//
// # Usage
//
// New returns a [Registry]. Prepare returns the command line of an agent, and installs the
// agent first if necessary. The program speaks the Agent Client Protocol (ACP) on its
// standard input and output. See the example.
//
// # Agents
//
// A table has claude, codex, opencode, amp, pi, cursor, gemini and mock, with the npm
// packages that they consist of, in exact versions. [Config.Custom] adds agents by their
// command lines.
//
// A command line is searched in this order:
//
//   - a configured one, and the built-in mock agent
//   - a launcher of sandbox-agent, in
//     $XDG_DATA_HOME/sandbox-agent/bin/agent_processes/NAME-acp
//   - what this package has installed, for this user and then for all users
//   - the adapter's usual names on PATH
//
// Models, modes and thought levels come from the table until the agent has reported its own.
// The host records the agent's answers with [Registry.Observe]. [Registry.Ask] starts an
// agent only to get these answers.
//
// # Installing
//
// [Registry.Install] has npm install the packages into a temporary folder, without running
// their scripts. Versions and checksums come from a lock file in this package, unless the
// caller asks for another version. Install checks that the agent's program runs on this
// machine, and then renames the folder to $XDG_DATA_HOME/deskhand/agents/NAME/VERSION. The
// previous version is kept for agents that run. If an install is killed, the agent is not
// installed, and the next install reuses its downloads. Installs of one agent wait for each
// other, also in different programs.
//
// With XDG_DATA_HOME=/usr/local/share, root installs agents for all users, who find them
// through XDG_DATA_DIRS.
//
// # Lifetime
//
// New starts nothing. [Registry.Close] ends installs and questions, and waits for them.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// The Err variables, [NotInstalledError] (which is ErrNotInstalled), [InstallError],
// [InvalidError] and [AskError]. The first two say what to do.
//
// # Requirements
//
// Linux on amd64 or arm64, with glibc or musl. Installing needs npm. Most agents need node
// 20 or later.
package registry
