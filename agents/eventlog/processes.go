package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

const processColumns = "id, server, agent, version, instance, pid, pid_started, boot_id, init, data, base, " +
	"started_at, exited_at, reason, exit_code, stderr"

var processUpsert = upsert("life", "id", processColumns)

func putProcess(l Process) statement {
	return statement{processUpsert, []any{
		l.ID, l.Server, l.Agent, l.Version, l.Instance, int64(l.PID), l.PIDStarted, l.BootID, l.Init, l.Data, l.Base,
		micros(l.StartedAt), micros(l.ExitedAt), l.Reason, l.ExitCode, l.Stderr,
	}}
}

func scanProcess(scan func(...any) error) (l Process, err error) {
	var started, exited int64
	err = scan(&l.ID, &l.Server, &l.Agent, &l.Version, &l.Instance, &l.PID, &l.PIDStarted, &l.BootID, &l.Init, &l.Data, &l.Base,
		&started, &exited, &l.Reason, &l.ExitCode, &l.Stderr)
	l.StartedAt, l.ExitedAt = stamp(started), stamp(exited)
	return l, err
}

func findProcess(ctx context.Context, q querier, id string) (l Process, err error) {
	found := false
	err = q.query(ctx, statement{"select " + processColumns + " from life where id = $1", []any{id}},
		func(scan func(...any) error) (bool, error) {
			found = true
			l, err = scanProcess(scan)
			return false, err
		})
	if err == nil && !found {
		err = fmt.Errorf("process %s: %w", quote(id), ErrNotFound)
	}
	return l, err
}

// Process returns a process, or [ErrNotFound].
func (l *Log) Process(ctx context.Context, id string) (Process, error) {
	if err := l.open(); err != nil {
		return Process{}, err
	}
	return findProcess(ctx, l.db.reader(), id)
}

// ProcessFilter says which processes a list has. Zero fields let all through.
type ProcessFilter struct {
	Server   string
	Instance string
	Open     bool // those without an end
	Latest   bool // of each server the one that was started last: see [Tx.StartProcess]
}

func (f ProcessFilter) has(l Process) bool {
	return (f.Server == "" || f.Server == l.Server) && (f.Instance == "" || f.Instance == l.Instance) &&
		(!f.Open || l.ExitedAt.IsZero())
}

// Processes returns the processes that a filter lets through, by the time at which they
// started.
func (l *Log) Processes(ctx context.Context, f ProcessFilter) ([]Process, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	return processes(ctx, l.db.reader(), f, nil)
}

func processes(ctx context.Context, q querier, f ProcessFilter, above *overlay[string, Process]) (all []Process, err error) {
	c := new(condition)
	c.equal("server", f.Server)
	c.equal("instance", f.Instance)
	if f.Open {
		c.add("exited_at = 0")
	}
	if f.Latest {
		c.add("not exists (select 1 from life later where later.server = life.server and " +
			"(later.started_at, later.id) > (life.started_at, life.id))")
	}
	err = q.query(ctx, c.statement("select "+processColumns+" from life", ""), func(scan func(...any) error) (bool, error) {
		l, err := scanProcess(scan)
		if _, changed := above.get(l.ID); !changed {
			all = append(all, l)
		}
		return true, err
	})
	above.each(func(_ string, l Process) {
		if f.has(l) {
			all = append(all, l)
		}
	})
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID)) })
	if f.Latest {
		all = latest(all)
	}
	return all, err
}

// newestProcess is what Processes finds of one server with Latest.
const newestProcess = "select " + processColumns + " from life where server = $1 order by started_at desc, id desc limit 1"

// latest leaves the last process of each server.
func latest(all []Process) []Process {
	last := map[string]int{}
	for i, l := range all {
		last[l.Server] = i
	}
	var left []Process
	for i, l := range all {
		if last[l.Server] == i {
			left = append(left, l)
		}
	}
	return left
}

// ReasonDeleted is the reason for the end of the last process of a server that was deleted.
const ReasonDeleted = "deleted"

// agentNames goes from one name to the next through the index of processes that did
// not end by a deletion, and looks at as many of each name as it takes to find a
// server's last one.
const agentNames = `with recursive known(agent) as (
	select min(agent) from life where reason <> 'deleted'
	union all
	select (select min(agent) from life where reason <> 'deleted' and agent > known.agent) from known where known.agent is not null
)
select agent from known where agent is not null and exists (
	select 1 from life where life.agent = known.agent and reason <> 'deleted' and not exists (
		select 1 from life later where later.server = life.server and (later.started_at, later.id) > (life.started_at, life.id)))`

// Agents returns, sorted, the agents that have servers whose last process did not end
// for [ReasonDeleted]. It takes no longer when there are many such servers.
func (l *Log) Agents(ctx context.Context) (names []string, err error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	err = l.db.reader().query(ctx, statement{sql: agentNames}, func(scan func(...any) error) (bool, error) {
		var name string
		err := scan(&name)
		names = append(names, name)
		return true, err
	})
	return names, err
}
