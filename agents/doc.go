// Package agents hosts coding agents.
package agents
