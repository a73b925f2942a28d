package eventlog

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"
)

// statement is SQL that both databases understand, with $1, $2... for its
// arguments: int64, string, []byte, nil, pointers to them, or a driver.Valuer.
type statement struct {
	sql  string
	args []any
}

// table is a table of records of type V, with keys of type K.
type table[K comparable, V any] struct {
	noun    string // for errors
	name    string // in the database
	key     string // the columns of the key
	columns string // all columns
	keyOf   func(*V) K
	keyArgs func(K) []any
	fields  func(*V) []any // pointers for the columns, in their order
	compare func(a, b V) int
}

func (t *table[K, V]) selectAll() string { return "select " + t.columns + " from " + t.name }

// put returns the statement that writes a record, new or not.
func (t *table[K, V]) put(v V) statement {
	var values, sets []string
	for i, c := range strings.Split(t.columns, ", ") {
		values = append(values, fmt.Sprintf("$%d", i+1))
		if !strings.Contains(t.key, c) {
			sets = append(sets, c+" = excluded."+c)
		}
	}
	return statement{fmt.Sprintf("insert into %s (%s) values (%s) on conflict (%s) do update set %s",
		t.name, t.columns, strings.Join(values, ", "), t.key, strings.Join(sets, ", ")), t.fields(&v)}
}

// find returns the record with a key, or ErrNotFound.
func (t *table[K, V]) find(ctx context.Context, q querier, key K) (v V, err error) {
	c := new(condition)
	for i, column := range strings.Split(t.key, ", ") {
		c.add(column+" = %s", t.keyArgs(key)[i])
	}
	found, err := queryRow(ctx, q, c.statement(t.selectAll(), ""), t.fields(&v)...)
	if err == nil && !found {
		err = fmt.Errorf("%s %.100q: %w", t.noun, any(key), ErrNotFound)
	}
	return v, err
}

// list returns the records that a statement selects, in order, and the records of above
// that match. A record of above replaces the selected record with the same key.
func (t *table[K, V]) list(ctx context.Context, q querier, s statement, above *overlay[K, V], match func(V) bool) (all []V, err error) {
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		var v V
		err := scan(t.fields(&v)...)
		if _, changed := above.get(t.keyOf(&v)); !changed {
			all = append(all, v)
		}
		return true, err
	})
	above.each(func(v V) {
		if match(v) {
			all = append(all, v)
		}
	})
	slices.SortFunc(all, t.compare)
	return all, err
}

// lookup returns a record that is committed, or ErrNotFound.
func lookup[K comparable, V any](ctx context.Context, l *Log, t *table[K, V], key K) (v V, err error) {
	if err := l.open(); err != nil {
		return v, err
	}
	return t.find(ctx, l.db.reader(), key)
}

// overlay holds records that were put and are not written yet. Below it is the overlay with
// the records of earlier callers in the same transaction.
type overlay[K comparable, V any] struct {
	below *overlay[K, V]
	keys  []K
	all   map[K]V
}

func (o *overlay[K, V]) get(key K) (v V, ok bool) {
	for ; o != nil; o = o.below {
		if v, ok = o.all[key]; ok {
			return v, true
		}
	}
	return v, false
}

func (o *overlay[K, V]) put(key K, v V) {
	if _, ok := o.all[key]; !ok {
		o.keys = append(o.keys, key)
	}
	if o.all == nil {
		o.all = map[K]V{}
	}
	o.all[key] = v
}

// each calls f with the newest version of every record, in any order.
func (o *overlay[K, V]) each(f func(V)) {
	seen := map[K]bool{}
	for ; o != nil; o = o.below {
		for _, key := range o.keys {
			if !seen[key] {
				seen[key] = true
				f(o.all[key])
			}
		}
	}
}

// mergeDown moves all records of o to the overlay below.
func (o *overlay[K, V]) mergeDown() {
	for _, key := range o.keys {
		o.below.put(key, o.all[key])
	}
}

// statements returns the statements that write the records of o, without those below.
func (o *overlay[K, V]) statements(t *table[K, V]) []statement {
	all := make([]statement, len(o.keys))
	for i, key := range o.keys {
		all[i] = t.put(o.all[key])
	}
	return all
}

// timeColumn is a time in the database: microseconds since 1970, or 0.
type timeColumn time.Time

// Scan implements sql.Scanner.
func (c *timeColumn) Scan(value any) error {
	us, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", value)
	}
	*c = timeColumn(fromMicros(us))
	return nil
}

// Value implements driver.Valuer.
func (c *timeColumn) Value() (driver.Value, error) { return micros(time.Time(*c)), nil }

// optionalColumn is a text in the database, or null if it is empty.
type optionalColumn string

// Scan implements sql.Scanner.
func (c *optionalColumn) Scan(value any) error {
	text, _ := value.(string)
	*c = optionalColumn(text)
	return nil
}

// Value implements driver.Valuer.
func (c *optionalColumn) Value() (driver.Value, error) {
	if *c == "" {
		return nil, nil
	}
	return string(*c), nil
}

// condition builds the where clause of a list.
type condition struct {
	parts []string
	args  []any
}

// add adds a part in which each %s stands for an argument.
func (c *condition) add(part string, args ...any) {
	names := make([]any, len(args))
	for i := range args {
		names[i] = fmt.Sprintf("$%d", len(c.args)+i+1)
	}
	c.parts = append(c.parts, fmt.Sprintf(part, names...))
	c.args = append(c.args, args...)
}

// equal selects a value unless it is empty.
func (c *condition) equal(column, value string) {
	if value != "" {
		c.add(column+" = %s", value)
	}
}

func (c *condition) statement(query, rest string) statement {
	if len(c.parts) > 0 {
		query += " where " + strings.Join(c.parts, " and ")
	}
	return statement{query + rest, c.args}
}
