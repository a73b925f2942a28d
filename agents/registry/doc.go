// Package registry knows which coding agents there are, installs them, says how
// each is started, and finds the credentials that they would use.
//
// # Usage
//
//	r, err := registry.New(registry.Config{})
//	defer r.Close()
//	cmd, err := r.Prepare(ctx, "claude", nil) // installs it if need be
//	// start cmd.Path with cmd.Args and cmd.Env: it speaks ACP on its
//	// standard input and output
//
// # Which agents
//
// The table is data: claude, codex, opencode, amp, pi, cursor, gemini and mock,
// with the npm packages, exactly pinned, that make them, and what is known to
// work. [Config.Custom] adds others, each a command line.
//
// A command line is looked for in this order: one that was configured; a
// launcher that sandbox-agent has left in
// $XDG_DATA_HOME/sandbox-agent/bin/agent_processes/NAME-acp; what this package
// installed; what it installed for all users; the adapter's usual names on PATH.
// The mock agent is built in.
//
// # Installing
//
// [Registry.Install] has npm put the packages into a temporary folder, without
// running any of their scripts. Versions and checksums come from a lock file in
// this package, unless other versions are asked for. Install checks that the
// agent's program is there and runs on this machine, and only then renames the
// folder. An install that is killed leaves nothing that counts as installed; the
// next one continues with the downloads that it left. Installs of one agent wait
// for each other, also in different programs.
//
// The folders are $XDG_DATA_HOME/deskhand/agents/NAME/VERSION. The one before
// the current one stays, for agents that were started from it. With
// XDG_DATA_HOME=/usr/local/share, root installs agents for all users: they are
// found through XDG_DATA_DIRS.
//
// # What agents say of themselves
//
// Models, modes and thought levels are those of the table until an agent was
// heard: the host passes on what each answers ([Registry.Observe]), and
// [Registry.Ask] starts an agent for the question alone.
//
// # Lifetime and concurrency
//
// Everything may be called from any goroutine. [Registry.Close] ends installs
// and questions that are under way, and waits for them.
//
// # Errors
//
// [ErrUnknownAgent]; [NotInstalledError], which is [ErrNotInstalled], and
// [InstallError] name what to do; [InvalidError] is about an argument;
// [AskError] is about an agent that did not answer; [ErrClosed].
//
// # Requirements
//
// Installing needs npm, and most agents node, 20 or newer. Linux on amd64 or
// arm64, with glibc or musl.
package registry
