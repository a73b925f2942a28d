package eventlog

import (
	"fmt"
	"strings"
)

// upsert is the SQL that writes a row, new or not.
func upsert(table, key, columns string) string {
	var values, sets []string
	for i, c := range strings.Split(columns, ", ") {
		values = append(values, fmt.Sprintf("$%d", i+1))
		if !strings.Contains(key, c) {
			sets = append(sets, c+" = excluded."+c)
		}
	}
	return fmt.Sprintf("insert into %s (%s) values (%s) on conflict (%s) do update set %s",
		table, columns, strings.Join(values, ", "), key, strings.Join(sets, ", "))
}

// condition builds the where clause of a list.
type condition struct {
	parts []string
	args  []any
}

// add takes a part in which each %s stands for an argument.
func (c *condition) add(part string, args ...any) {
	names := make([]any, len(args))
	for i := range args {
		names[i] = fmt.Sprintf("$%d", len(c.args)+i+1)
	}
	c.parts = append(c.parts, fmt.Sprintf(part, names...))
	c.args = append(c.args, args...)
}

// equal asks for a value unless it is empty.
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

func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return fmt.Sprintf("%q", s)
}

// null makes NULL of what is empty.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
