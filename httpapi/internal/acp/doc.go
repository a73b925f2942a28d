// Package acp has the routes of the Agent Client Protocol: the ones of sandbox-agent, and the
// transport that the protocol has for agents that are reached over a network.
package acp
