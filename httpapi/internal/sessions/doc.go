// Package sessions has the routes of sandbox-agent 0.1 for sessions: their messages, events
// and questions. All APIs share the sessions.
package sessions
