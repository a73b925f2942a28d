package apiclient

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// aliases are commands of sandbox-agent that have other words by the rules. The commands
// for sessions are from its releases before 0.2.
var aliases = map[string]string{
	"acp stream":                   "acp get",
	"acp close":                    "acp delete",
	"sessions create":              "sessions post",
	"sessions send-message":        "sessions messages",
	"sessions send-message-stream": "sessions messages stream",
	"sessions events-sse":          "sessions events sse",
	"sessions get-messages":        "sessions events",
	"sessions reply-question":      "sessions questions reply",
	"sessions reject-question":     "sessions questions reject",
	"sessions reply-permission":    "sessions permissions reply",
}

// name gives the operations their words, by the rules of the package comment.
func (d *document) name() {
	collections, shared := map[string]bool{}, map[string]int{}
	for _, op := range d.operations {
		for i := range op.path {
			if strings.HasPrefix(op.path[i:], "/{") {
				collections[op.path[:i]] = true
			}
		}
		shared[op.path]++
	}
	// Of two operations that would have the same words, the one with fewer
	// parameters gets them.
	byParameters := slices.SortedStableFunc(slices.Values(d.operations), func(a, b *operation) int {
		return strings.Count(a.path, "{") - strings.Count(b.path, "{")
	})
	byCommand := map[string]*operation{}
	for _, op := range byParameters {
		words := fixedSegments(op.path)
		if v := verb(op, collections[op.path], shared[op.path] > 1); v != "" {
			words = append(words, v)
		}
		command := strings.Join(words, " ")
		if byCommand[command] == nil && len(words) > 0 {
			byCommand[command], op.words = op, words
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if op := byCommand[aliases[alias]]; op != nil {
			same := *op
			same.words, same.alias = strings.Fields(alias), true
			d.operations = append(d.operations, &same)
		}
	}
}

// fixedSegments returns the segments of a path that become words.
func fixedSegments(path string) []string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if segments[0] == "v1" {
		segments = segments[1:]
	}
	if n := len(segments); n > 1 && segments[n-1] == "ws" {
		segments = segments[:n-1]
	}
	return slices.DeleteFunc(segments, func(s string) bool { return s == "" || strings.HasPrefix(s, "{") })
}

// verb returns the last word of an operation, or "" if it needs none. collection
// says that other paths go on with a parameter, shared that the path has several
// methods.
func verb(op *operation, collection, shared bool) string {
	item := strings.HasSuffix(op.path, "}")
	if strings.HasSuffix(op.path, "/elements/{ref}") {
		return "do" // it does what the body says with an element that exists
	}
	names := map[string]string{"PUT": "put", "PATCH": "update", "DELETE": "delete"}
	switch {
	case collection && !item:
		maps.Copy(names, map[string]string{"GET": "list", "POST": "create"})
	case item && !shared: // a lone POST creates a member whose id the caller chose
		maps.Copy(names, map[string]string{"GET": "get", "POST": "create"})
	case item, strings.HasSuffix(op.path, "/acp"):
		maps.Copy(names, map[string]string{"GET": "get", "POST": "post"})
	case shared:
		maps.Copy(names, map[string]string{"GET": "get", "POST": "set"})
	}
	return names[op.method]
}

// group returns the operations whose words begin with words.
func (d *document) group(words []string) []*operation {
	return slices.DeleteFunc(slices.Clone(d.operations), func(op *operation) bool {
		return len(op.words) < len(words) || !slices.Equal(op.words[:len(words)], words)
	})
}

// find follows args while they are words of a command. It returns the number
// of words, and the operation that they name. The operation is nil if they only
// begin commands.
func (d *document) find(args []string) (op *operation, used int) {
	for used < len(args) && len(d.group(args[:used+1])) > 0 {
		used++
	}
	i := slices.IndexFunc(d.operations, func(op *operation) bool { return used > 0 && slices.Equal(op.words, args[:used]) })
	if i < 0 {
		return nil, used
	}
	return d.operations[i], used
}

// following returns the words that may follow words, sorted, each with the summary
// of the command that it completes.
func (d *document) following(words []string) []Next {
	abouts := map[string]string{}
	for _, op := range d.group(words) {
		if rest := op.words[len(words):]; len(rest) > 0 {
			about := ""
			if len(rest) == 1 {
				about = op.Summary
			}
			abouts[rest[0]] = cmp.Or(abouts[rest[0]], about)
		}
	}
	var next []Next
	for _, word := range sortedKeys(abouts) {
		next = append(next, Next{Word: word, About: abouts[word]})
	}
	return next
}
