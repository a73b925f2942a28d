package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

const lifeColumns = "id, server, agent, version, instance, pid, pid_started, boot_id, init, data, base, " +
	"started_at, exited_at, reason, exit_code, stderr"

var lifeUpsert = upsert("life", "id", lifeColumns)

func putLife(l Life) statement {
	return statement{lifeUpsert, []any{
		l.ID, l.Server, l.Agent, l.Version, l.Instance, int64(l.PID), l.PIDStarted, l.BootID, l.Init, l.Data, l.Base,
		micros(l.StartedAt), micros(l.ExitedAt), l.Reason, l.ExitCode, l.Stderr,
	}}
}

func scanLife(scan func(...any) error) (l Life, err error) {
	var started, exited int64
	err = scan(&l.ID, &l.Server, &l.Agent, &l.Version, &l.Instance, &l.PID, &l.PIDStarted, &l.BootID, &l.Init, &l.Data, &l.Base,
		&started, &exited, &l.Reason, &l.ExitCode, &l.Stderr)
	l.StartedAt, l.ExitedAt = stamp(started), stamp(exited)
	return l, err
}

func findLife(ctx context.Context, q querier, id string) (l Life, err error) {
	found := false
	err = q.query(ctx, statement{"select " + lifeColumns + " from life where id = $1", []any{id}},
		func(scan func(...any) error) (bool, error) {
			found = true
			l, err = scanLife(scan)
			return false, err
		})
	if err == nil && !found {
		err = fmt.Errorf("life %s: %w", quote(id), ErrNotFound)
	}
	return l, err
}

// Life returns a life, or [ErrNotFound].
func (l *Log) Life(ctx context.Context, id string) (Life, error) {
	if err := l.open(); err != nil {
		return Life{}, err
	}
	return findLife(ctx, l.db.reader(), id)
}

// LifeFilter says which lives a list has. Zero fields let all through.
type LifeFilter struct {
	Server   string
	Instance string
	Open     bool // those without an end
	Latest   bool // of each server the one that was started last: see [Tx.StartLife]
}

func (f LifeFilter) has(l Life) bool {
	return (f.Server == "" || f.Server == l.Server) && (f.Instance == "" || f.Instance == l.Instance) &&
		(!f.Open || l.ExitedAt.IsZero())
}

// Lives returns the lives that a filter lets through, by the time at which they
// started.
func (l *Log) Lives(ctx context.Context, f LifeFilter) ([]Life, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	return lives(ctx, l.db.reader(), f, nil)
}

func lives(ctx context.Context, q querier, f LifeFilter, above *overlay[string, Life]) (all []Life, err error) {
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
	err = q.query(ctx, c.statement("select "+lifeColumns+" from life", ""), func(scan func(...any) error) (bool, error) {
		l, err := scanLife(scan)
		if _, changed := above.get(l.ID); !changed {
			all = append(all, l)
		}
		return true, err
	})
	above.each(func(_ string, l Life) {
		if f.has(l) {
			all = append(all, l)
		}
	})
	slices.SortFunc(all, func(a, b Life) int { return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID)) })
	if f.Latest {
		all = latest(all)
	}
	return all, err
}

// newestLife is what Lives finds of one server with Latest.
const newestLife = "select " + lifeColumns + " from life where server = $1 order by started_at desc, id desc limit 1"

// latest leaves the last life of each server.
func latest(all []Life) []Life {
	last := map[string]int{}
	for i, l := range all {
		last[l.Server] = i
	}
	var left []Life
	for i, l := range all {
		if last[l.Server] == i {
			left = append(left, l)
		}
	}
	return left
}

// ReasonDeleted is the reason for the end of the last life of a server that was deleted.
const ReasonDeleted = "deleted"

// agentNames goes from one name to the next through the index of lives that did
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

// Agents returns, sorted, the agents that have servers whose last life did not end
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
