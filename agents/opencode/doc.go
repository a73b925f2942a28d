// Package opencode makes the sessions, messages, parts and events of OpenCode's server API
// from the logs of sessions.
//
// # Usage
//
// [SessionOf] describes a session, and [StatusOf] says whether it works. A [Transcript] holds its
// messages: [Transcript.Apply] takes the entries of the log one by one and returns the events of
// each. See the example.
//
// # Names
//
// An agent of this server is a provider in OpenCode's API, and its models are the provider's
// models. The modes of an agent are OpenCode's agents. An agent that names no model has
// [DefaultModel], and an agent that names no mode [DefaultAgent].
//
// # Lifetime
//
// A Transcript needs no Close. [Transcript.Trim] bounds its memory if only events are needed.
//
// # Concurrency
//
// A Transcript is for one goroutine at a time. What it returns changes with Apply.
//
// # Errors
//
// No function fails. A Transcript leaves out entries that it does not understand, and entries of
// more than 8 MiB.
package opencode
