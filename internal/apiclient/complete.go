package apiclient

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Next is a word that may follow on a command line.
type Next struct{ Word, About string }

// Complete returns the words of commands that may follow words, and the flags
// that may be given there. It returns neither if the words name no command.
func (c *Command) Complete(words []string) ([]Next, *pflag.FlagSet, error) {
	doc, err := Parse(c.Document)
	if err != nil {
		return nil, nil, err
	}
	r := &run{Command: c, doc: doc}
	t, err := r.locate(words)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // nothing follows a wrong command line
	}
	flags := r.generalFlags()
	if t.op != nil {
		body, stream := r.bodyFlags(t.op), r.streamFlags(t.op)
		_, params, members := fieldFlags(t.op, flags, body, stream)
		for _, set := range []*pflag.FlagSet{members, params, body, stream} {
			flags.AddFlagSet(set)
		}
	}
	if t.path != "" || t.report != nil {
		return nil, flags, nil
	}
	return r.following(t.words), flags, nil
}

// following returns the words of commands that may follow words, sorted.
func (r *run) following(words []string) []Next {
	var next []Next
	n := len(words)
	add := func(command []string, about string) {
		if len(command) <= n || !slices.Equal(command[:n], words) {
			return
		}
		if len(command) > n+1 {
			about = "" // of one of several
		}
		i := slices.IndexFunc(next, func(w Next) bool { return w.Word == command[n] })
		if i < 0 {
			i = len(next)
			next = append(next, Next{Word: command[n]})
		}
		next[i].About = cmp.Or(next[i].About, about)
	}
	for _, op := range r.doc.operations {
		add(op.Words, op.Summary)
	}
	for _, report := range r.Reports {
		add(report.Words, report.Summary)
	}
	slices.SortFunc(next, func(a, b Next) int { return strings.Compare(a.Word, b.Word) })
	return next
}
