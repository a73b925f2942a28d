// Package agenttest runs real coding agents (Claude Code, Codex, OpenCode) on a
// real server, against a model that does as the prompt says.
//
// It holds tests alone. They download the agents, about a gigabyte, so they run
// when DESKHAND_AGENTS names the directory to keep them in, as make test-agents
// does, and are skipped otherwise.
package agenttest
