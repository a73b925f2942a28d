package eventlog

// AgentNames is the statement of Agents, for a test that looks how it is run.
const AgentNames = agentNames
