package apiclient

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// name gives the operations their words, as the package comment says.
func (d *Document) name() {
	collections, shared := map[string]bool{}, map[string]int{}
	for _, op := range d.operations {
		for i := range op.Path {
			if strings.HasPrefix(op.Path[i:], "/{") {
				collections[op.Path[:i]] = true
			}
		}
		shared[op.Path]++
	}
	taken := map[string]bool{}
	// Those with fewer parameters first: they keep their words when two would
	// have the same.
	inOrder := slices.Clone(d.operations)
	slices.SortStableFunc(inOrder, func(a, b *Operation) int { return strings.Count(a.Path, "{") - strings.Count(b.Path, "{") })
	for _, op := range inOrder {
		words := fixedSegments(op.Path)
		if v := verb(op, collections[op.Path], shared[op.Path] > 1); v != "" {
			words = append(words, v)
		}
		if key := strings.Join(words, " "); len(words) > 0 && !taken[key] {
			taken[key] = true
			op.Words = words
		}
	}
}

// fixedSegments are the parts of a path that are always the same, and say
// something.
func fixedSegments(path string) []string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if segments[0] == "v1" {
		segments = segments[1:]
	}
	if n := len(segments); n > 1 && segments[n-1] == "ws" {
		segments = segments[:n-1]
	}
	return slices.DeleteFunc(segments, func(s string) bool { return s == "" || isParameter(s) })
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

// verb is the last word of an operation; empty: it needs none.
func verb(op *Operation, collection, shared bool) string {
	item := strings.HasSuffix(op.Path, "}")
	names := map[string]string{"PUT": "put", "PATCH": "update", "DELETE": "delete"}
	switch {
	case collection && !item:
		maps.Copy(names, map[string]string{"GET": "list", "POST": "create"})
	case item && !shared:
		// Nothing but POST: the member gets the id that its maker chose.
		maps.Copy(names, map[string]string{"GET": "get", "POST": "create"})
	case item, strings.HasSuffix(op.Path, "/acp"): // what is sent there are messages
		maps.Copy(names, map[string]string{"GET": "get", "POST": "post"})
	case shared:
		maps.Copy(names, map[string]string{"GET": "get", "POST": "set"})
	}
	return names[op.Method]
}

// find goes along words as far as they lead. It returns how many of them were
// used, and the operation that these name; nil: they only begin the names of
// several.
func (d *Document) find(words []string) (op *Operation, used int) {
	candidates := d.operations
	for _, word := range words {
		next := below(candidates, used, word)
		if len(next) == 0 {
			break
		}
		candidates, used = next, used+1
	}
	if at := slices.IndexFunc(candidates, func(op *Operation) bool { return len(op.Words) == used }); used > 0 && at >= 0 {
		op = candidates[at]
	}
	return op, used
}

// below are those of the operations whose word number i is that one.
func below(operations []*Operation, i int, word string) []*Operation {
	var list []*Operation
	for _, op := range operations {
		if len(op.Words) > i && op.Words[i] == word {
			list = append(list, op)
		}
	}
	return list
}

// group are the operations whose words begin so.
func (d *Document) group(words []string) []*Operation {
	list := d.operations
	for i, word := range words {
		list = below(list, i, word)
	}
	return list
}

// match finds the operation of a method and a path without its query, and the
// path's parameters. Fixed segments go before parameters.
func (d *Document) match(method, path string) (*Operation, map[string]string) {
	segments := strings.Split(path, "/")
	var best *Operation
	var bestValues map[string]string
	for _, op := range d.operations {
		values, ok := matchPath(op.Path, segments)
		if ok && op.Method == method && (best == nil || len(values) < len(bestValues)) {
			best, bestValues = op, values
		}
	}
	return best, bestValues
}

func matchPath(template string, segments []string) (map[string]string, bool) {
	parts := strings.Split(template, "/")
	if len(parts) != len(segments) {
		return nil, false
	}
	values := map[string]string{}
	for i, part := range parts {
		switch {
		case isParameter(part):
			if segments[i] == "" {
				return nil, false
			}
			values[strings.Trim(part, "{}")] = segments[i]
		case part != segments[i]:
			return nil, false
		}
	}
	return values, true
}

// synonyms are verbs of other programs, and what they are called here.
var synonyms = map[string][]string{
	"ls": {"list"}, "show": {"get"}, "describe": {"get"}, "read": {"get"}, "write": {"put", "set"}, "set": {"put"},
	"new": {"create"}, "add": {"create", "put"}, "start": {"create"}, "rm": {"delete"}, "remove": {"delete"}, "del": {"delete"},
}

// suggest is what somebody may have meant by words that name nothing.
func (d *Document) suggest(words []string) []string {
	const most = 3
	var list []string
	if inPlace := d.argumentsInPlace(words); inPlace != "" {
		list = append(list, inPlace)
	}
	last := len(words) - 1
	for _, verb := range synonyms[words[last]] {
		line := append(slices.Clone(words[:last]), verb)
		if op, used := d.find(line); op != nil && used == len(line) {
			list = append(list, strings.Join(line, " "))
		}
	}
	for _, near := range d.near(words) {
		if !slices.Contains(list, near) {
			list = append(list, near)
		}
	}
	return list[:min(most, len(list))]
}

// near are the commands that read like words, the most alike first.
func (d *Document) near(words []string) []string {
	type candidate struct {
		text string
		cost int
	}
	var list []candidate
	for _, op := range d.operations {
		if cost := wordDistance(words, op.Words); len(op.Words) > 0 && cost <= 3+3*len(words) {
			list = append(list, candidate{strings.Join(op.Words, " "), cost})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Or(a.cost-b.cost, len(a.text)-len(b.text)) })
	var texts []string
	for _, c := range list {
		if c.cost <= list[0].cost+1 {
			texts = append(texts, c.text)
		}
	}
	return texts
}

// wordDistance is how far the words that somebody gave are from those of a
// command: one that was left out counts little, a misspelt one by its letters,
// one that the command has not at all counts most.
func wordDistance(given, words []string) int {
	const leftOut, tooMuch, letter = 2, 4, 3
	row := make([]int, len(words)+1)
	for j := range row {
		row[j] = j * leftOut
	}
	for _, g := range given {
		diagonal := row[0]
		row[0] += tooMuch + len(g)
		for j, w := range words {
			cost := min(row[j+1]+tooMuch+len(g), row[j]+leftOut)
			if wrong := distance(g, w); wrong <= max(len(g), len(w))/3 {
				cost = min(cost, diagonal+letter*wrong)
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(words)]
}

// argumentsInPlace is the command line that was meant by one which has its
// arguments where the path has them.
func (d *Document) argumentsInPlace(words []string) string {
	for _, prefix := range []string{"/v1/", "/"} {
		for _, method := range methods {
			op, values := d.match(method, prefix+strings.Join(words, "/"))
			if op == nil || len(values) == 0 || len(op.Words) == 0 {
				continue
			}
			line := slices.Clone(op.Words)
			for part := range strings.SplitSeq(op.Path, "/") {
				if isParameter(part) {
					line = append(line, values[strings.Trim(part, "{}")])
				}
			}
			return strings.Join(line, " ")
		}
	}
	return ""
}

// distance is Levenshtein's: how many letters have to be put in, taken out or
// replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// earlier are the commands of sandbox-agent's releases before 0.2 which the
// rules would name otherwise.
var earlier = map[[2]string][]string{
	{"sessions", "send-message"}:        {"sessions", "messages"},
	{"sessions", "send-message-stream"}: {"sessions", "messages", "stream"},
	{"sessions", "events-sse"}:          {"sessions", "events", "sse"},
	{"sessions", "reply-question"}:      {"sessions", "questions", "reply"},
	{"sessions", "reject-question"}:     {"sessions", "questions", "reject"},
	{"sessions", "reply-permission"}:    {"sessions", "permissions", "reply"},
}

// renamed replaces an earlier command at the beginning of a command line.
func renamed(args []string) []string {
	if len(args) < 2 {
		return args
	}
	if words, ok := earlier[[2]string{args[0], args[1]}]; ok {
		return slices.Concat(words, args[2:])
	}
	return args
}
