package apiclient

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// helpWidth is where lines of help break.
const helpWidth = 100

// about is what the help of the whole command says before its flags.
const about = `Calls the routes of a running server: each is a command, made of the server's
OpenAPI document. '%[1]s' lists them, '%[1]s WORDS --help' tells more.

  %[1]s desktop mouse click 10 20 --button right
  %[1]s desktop screenshot -o desk.png
  %[1]s GET /v1/health

The words are the path's, without v1; parameters of the path follow as arguments.
Collections and their members have a verb at the end: list, create, get, put,
update, delete. Where several methods share another path, it is get, set, put,
update or delete. Flags are the parameters and the members of the JSON body:
--a.b is member b of a, lists are given by repeating the flag, maps as KEY=VALUE.
Required texts and numbers may be arguments as well, in the order of the help.

Nothing but the answer goes to standard output: JSON on one line, or indented on
a terminal; server-sent events one line each, until Ctrl-C.

Exit status: 0 success; 1 the server refused, or cannot be reached; 2 the command
line is wrong; 130 ended by Ctrl-C.
`

// list prints the operations of a group, or all with the general flags.
func (r *run) list(t *target) error {
	if t.help && len(t.words) == 0 {
		fmt.Fprintf(r.Stdout, "Usage: %[1]s [FLAGS] WORDS... [ARGUMENTS] [FLAGS]\n       %[1]s [FLAGS] [METHOD] /PATH [FLAGS]\n\n", r.Name)
		fmt.Fprintf(r.Stdout, about+"\nFlags:\n%[2]s", r.Name, r.generalFlags().FlagUsagesWrapped(helpWidth))
		return nil
	}
	group := r.doc.group(t.words)
	var mirrors []string
	if len(t.words) == 0 {
		group, mirrors = withoutMirrors(group)
	}
	width := 0
	for _, op := range group {
		width = max(width, len(op.signature()))
	}
	width = min(width, 44)
	for i, tag := range tagsOf(group) {
		if i > 0 {
			fmt.Fprintln(r.Stdout)
		}
		fmt.Fprintln(r.Stdout, printable(tag))
		for _, op := range group {
			if op.Tag == tag {
				fmt.Fprintf(r.Stdout, "  %-*s  %s\n", width, printable(op.signature()), printable(op.Summary))
			}
		}
	}
	r.listReports(t.words)
	for _, m := range mirrors {
		fmt.Fprintln(r.Stdout, "\n"+m)
	}
	fmt.Fprintf(r.Stdout, "\n'%s WORDS --help' tells a command's flags, '%[1]s --help' those of all.\n", r.Name)
	return nil
}

// tagsOf are the operations' groups, sorted.
func tagsOf(operations []*Operation) []string {
	var tags []string
	for _, op := range operations {
		tags = append(tags, op.Tag)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// withoutMirrors leaves out what is there a second time for members of a
// collection: of desktops all that there is of desktop.
func withoutMirrors(all []*Operation) (kept []*Operation, notes []string) {
	known := map[string]*Operation{}
	for _, op := range all {
		known[op.Method+" "+op.Path] = op
	}
	noted := map[string]bool{}
	for _, op := range all {
		collection, below, ok := strings.Cut(op.Path, "s/{")
		parameter, rest, deep := strings.Cut(below, "}")
		original := known[op.Method+" "+collection+rest]
		if !ok || !deep || rest == "" || original == nil || original.Summary != op.Summary {
			kept = append(kept, op)
			continue
		}
		words := fixedSegments(collection)
		if key := strings.Join(words, " "); !noted[key] {
			noted[key] = true
			notes = append(notes, fmt.Sprintf("What begins with '%[1]s' is also there as '%[1]ss WORDS %[2]s', for any of them.", key, strings.ToUpper(kebab(parameter))))
		}
	}
	return kept, notes
}

// signature is how the operation is called: words and arguments, or its path.
func (op *Operation) signature() string {
	if len(op.Words) == 0 {
		return op.Method + " " + op.Path
	}
	parts := slices.Clone(op.Words)
	positions, rest := byPosition(op.fields())
	for _, f := range positions {
		if f.required {
			parts = append(parts, f.argument())
		} else {
			parts = append(parts, "["+f.argument()+"]")
		}
	}
	if rest != nil {
		parts = append(parts, "["+rest.argument()+"...]")
	}
	return strings.Join(parts, " ")
}

// describe prints the help of one operation, or of a path that is not
// documented.
func (r *run) describe(t *target, groups []flagGroup) error {
	line := t.command()
	if t.op != nil && t.path == "" {
		line = t.op.signature()
	}
	fmt.Fprintf(r.Stdout, "Usage: %s %s [FLAGS]\n", r.Name, line)
	if t.op != nil {
		fmt.Fprintf(r.Stdout, "\n%s\n", printable(r.introduce(t)))
	}
	for _, g := range groups {
		if g.flags.HasFlags() {
			fmt.Fprintf(r.Stdout, "\n%s:\n%s", g.title, printable(g.flags.FlagUsagesWrapped(helpWidth)))
		}
	}
	fmt.Fprintf(r.Stdout, "\nFlags of all commands, as --endpoint, --token-file, --output and --raw: '%s --help'.\n", r.Name)
	return nil
}

// introduce is what help says of an operation before its flags.
func (r *run) introduce(t *target) string {
	op := t.op
	paragraphs := []string{op.Summary + "."}
	for text := range strings.SplitSeq(op.Description, "\n\n") {
		paragraphs = append(paragraphs, wrap(text, helpWidth))
	}
	fields := op.fields()
	if positions, rest := byPosition(fields); rest != nil && t.path == "" {
		last := len(positions) - 1
		words := slices.Concat([]string{r.Name}, op.Words)
		for _, f := range positions[:last] {
			words = append(words, f.argument())
		}
		paragraphs = append(paragraphs, fmt.Sprintf("Where %s begin with -, a -- goes before %s: %s -- %[2]s -x",
			rest.argument(), positions[last].argument(), strings.Join(words, " ")))
	}
	var facts []string
	for _, f := range fields {
		if f.place == inPath {
			facts = append(facts, f.argument()+": "+cmp.Or(f.about, f.typeName()))
		}
	}
	facts = append(facts, "Route: "+op.Method+" "+op.Path)
	if kinds := op.answerTypes(); len(kinds) > 0 {
		facts = append(facts, "Answer: "+oneOf(kinds))
	}
	paragraphs = slices.DeleteFunc(append(paragraphs, strings.Join(facts, "\n")), func(p string) bool { return p == "" })
	return strings.Join(paragraphs, "\n\n")
}

// flagGroup is a part of the flags under a heading of its own.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// wrap breaks a text into lines.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
