package eventlog

// AgentNames is the statement of Agents, for a test that looks how it is run.
const AgentNames = agentNames

// Waiting is how many callers wait in the queue.
func (l *Log) Waiting() int { return len(l.jobs) }
