// Package agents has the routes of agents: which there are, and their installation.
package agents
