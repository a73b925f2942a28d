// Package agenthost has what the areas that use agents have in common: the host of agents,
// which is started when it is first needed, and the problems for its errors.
package agenthost
