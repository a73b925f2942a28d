package eventlog

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Process is a process of an agent.
type Process struct {
	ID         string
	Server     string // the id of its ACP server
	Agent      string
	Version    string
	Instance   string // the [Log.Instance] that started it
	PID        int
	PIDStarted int64     // its start in the kernel's ticks: a PID can be used again
	BootID     string    // the boot of the machine: PIDs are valid during one boot
	Init       []byte    // JSON: the initialize request that it got
	Data       []byte    // JSON: more data of the caller
	Base       int64     // the last sequence of the server's stream before the process started
	StartedAt  time.Time // orders the processes of a server: see [Tx.StartProcess]
	ExitedAt   time.Time // zero: no end is known
	Reason     string    // the reason for its end, in the caller's words
	ExitCode   *int
	Stderr     []byte // the end of its standard error
}

// ReasonDeleted is the reason for the end of the last process of a server that was deleted.
const ReasonDeleted = "deleted"

func (p *Process) check(now time.Time) error {
	if p.ID == "" {
		return &InvalidError{"process.id", "must not be empty"}
	}
	p.StartedAt, p.ExitedAt = asStored(p.StartedAt, now), asStored(p.ExitedAt, time.Time{})
	return cmp.Or(
		checkTexts("process", maxName, "id", p.ID, "server", p.Server, "agent", p.Agent, "version", p.Version, "instance", p.Instance, "bootId", p.BootID),
		checkTexts("process", maxText, "reason", p.Reason))
}

var processTable = table[string, Process]{
	noun: "process", name: "life", key: "id",
	columns: "id, server, agent, version, instance, pid, pid_started, boot_id, init, data, base, " +
		"started_at, exited_at, reason, exit_code, stderr",
	keyOf:   func(p *Process) string { return p.ID },
	keyArgs: func(id string) []any { return []any{id} },
	fields: func(p *Process) []any {
		return []any{
			&p.ID, &p.Server, &p.Agent, &p.Version, &p.Instance, &p.PID, &p.PIDStarted, &p.BootID, &p.Init, &p.Data, &p.Base,
			(*timeColumn)(&p.StartedAt), (*timeColumn)(&p.ExitedAt), &p.Reason, &p.ExitCode, &p.Stderr,
		}
	},
	compare: func(a, b Process) int { return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID)) },
}

// hasLater is the SQL condition that a process is not the newest of its server.
const hasLater = "exists (select 1 from life later where later.server = life.server and " +
	"(later.started_at, later.id) > (life.started_at, life.id))"

// Process returns a process, or [ErrNotFound].
func (l *Log) Process(ctx context.Context, id string) (Process, error) {
	return lookup(ctx, l, &processTable, id)
}

// ProcessFilter selects processes. Fields that are zero select all.
type ProcessFilter struct {
	Server   string
	Instance string
	Open     bool // processes without an end
	Latest   bool // the newest process of each server: see [Tx.StartProcess]
}

func (f ProcessFilter) match(p Process) bool {
	return (f.Server == "" || f.Server == p.Server) && (f.Instance == "" || f.Instance == p.Instance) &&
		(!f.Open || p.ExitedAt.IsZero())
}

// Processes returns the selected processes by the time of their start, the oldest first.
func (l *Log) Processes(ctx context.Context, f ProcessFilter) ([]Process, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	return f.list(ctx, l.db.reader(), nil)
}

func (f ProcessFilter) list(ctx context.Context, q querier, above *overlay[string, Process]) ([]Process, error) {
	c := new(condition)
	c.equal("server", f.Server)
	c.equal("instance", f.Instance)
	if f.Open {
		c.add("exited_at = 0")
	}
	if f.Latest {
		c.add("not " + hasLater)
	}
	all, err := processTable.list(ctx, q, c.statement(processTable.selectAll(), ""), above, f.match)
	if f.Latest { // above may have later processes
		last := map[string]string{}
		for _, p := range all {
			last[p.Server] = p.ID
		}
		all = slices.DeleteFunc(all, func(p Process) bool { return last[p.Server] != p.ID })
	}
	return all, err
}

// selectNewest selects the newest process of a server.
var selectNewest = processTable.selectAll() + " where server = $1 order by started_at desc, id desc limit 1"

// agentNames goes from one name to the next in an index, and reads processes of each
// name until it has found the last process of a server.
const agentNames = `with recursive known(agent) as (
	select min(agent) from life where reason <> 'deleted'
	union all
	select (select min(agent) from life where reason <> 'deleted' and agent > known.agent) from known where known.agent is not null
)
select agent from known where agent is not null and exists (
	select 1 from life where life.agent = known.agent and reason <> 'deleted' and not ` + hasLater + `)`

// Agents returns, sorted, the agents that have servers whose last process did not end
// for [ReasonDeleted]. The time that it takes does not grow with the number of servers.
func (l *Log) Agents(ctx context.Context) ([]string, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	return queryColumn[string](ctx, l.db.reader(), statement{sql: agentNames})
}
