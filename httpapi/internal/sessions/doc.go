// Package sessions has the routes of sandbox-agent 0.1 for sessions: their messages, events
// and questions. The sessions are those of all APIs.
package sessions
