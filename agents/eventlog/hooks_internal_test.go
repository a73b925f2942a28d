package eventlog

// AgentNames is the statement of Agents, for a test of its query plan.
const AgentNames = agentNames

// Waiting returns the number of jobs in the queue.
func (l *Log) Waiting() int { return len(l.jobs) }
