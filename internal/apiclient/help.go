package apiclient

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// helpWidth is where lines of help break.
const helpWidth = 100

// about is what the help of the whole command says before its flags.
const about = `Calls a running server. Each route of its OpenAPI document is a command:
'%[1]s' lists them, '%[1]s WORDS --help' describes one.

  %[1]s desktop mouse click 10 20 --button right
  %[1]s desktop screenshot -o desk.png
  %[1]s GET /v1/health

The words of a command are the path without v1. Parameters of the path follow as
arguments. A verb ends the words of collections and their members: list, create,
get, put, update, delete. If several methods share another path, the verb is get,
set, put, update or delete.

Flags are the parameters and the members of the JSON body. Repeat a flag for a
list. Objects are KEY=VALUE or JSON. Required texts and numbers may be arguments,
in the order of the help. Put -- before arguments that begin with -, as in:
%[1]s processes run -- ls -l

Only the answer goes to standard output: JSON on one line, or indented on a
terminal; server-sent events one line each, until Ctrl-C.

Exit status: 0 success; 1 the server refused or cannot be reached; 2 the command
line is wrong; 130 ended by Ctrl-C.
`

// list prints the commands of a group. It prints the help of the whole command if
// that was asked for.
func (r *run) list(t *target) {
	if t.help {
		fmt.Fprintf(r.Stdout, "Usage: %[1]s [FLAGS] WORDS... [ARGUMENTS] [FLAGS]\n       %[1]s [FLAGS] [METHOD] /PATH [FLAGS]\n\n", r.Name)
		fmt.Fprintf(r.Stdout, about+"\nFlags:\n%[2]s", r.Name, r.general.FlagUsagesWrapped(helpWidth))
		return
	}
	group := slices.DeleteFunc(r.doc.group(t.words), func(op *operation) bool {
		return op.alias || len(t.words) == 0 && strings.HasPrefix(op.path, mirrored)
	})
	// The list of operations is sorted by path. Headings are sorted by name.
	slices.SortStableFunc(group, func(a, b *operation) int { return strings.Compare(a.tag(), b.tag()) })
	width := 0
	for _, op := range group {
		width = min(max(width, len(op.signature())), 44)
	}
	for i, op := range group {
		if i == 0 || op.tag() != group[i-1].tag() {
			fmt.Fprintf(r.Stdout, "%s%s\n", strings.Repeat("\n", min(i, 1)), op.tag())
		}
		fmt.Fprintf(r.Stdout, "  %-*s  %s\n", width, op.signature(), op.Summary)
	}
	if len(t.words) == 0 {
		fmt.Fprintln(r.Stdout, "\nFor other desktops, 'desktop WORDS' is 'desktops WORDS DESKTOP'.")
	}
	fmt.Fprintf(r.Stdout, "\nRun '%s WORDS --help' for the flags of a command, '%[1]s --help' for the flags of all.\n", r.Name)
}

// mirrored begins the paths of routes that every desktop has. The list of all commands
// has these routes once, for the main desktop.
const mirrored = "/v1/desktops/{desktop}/"

// signature returns the words and arguments that call the operation, or its path
// if it has no words.
func (op *operation) signature() string {
	if len(op.words) == 0 {
		return op.method + " " + op.path
	}
	parts := slices.Clone(op.words)
	list, rest := positions(op.fields())
	for _, f := range list {
		parts = append(parts, f.argument())
	}
	if rest != nil {
		parts = append(parts, "["+rest.argument()+"...]")
	}
	return strings.Join(parts, " ")
}

// describe prints the help of an operation or of a path.
func (r *run) describe(t *target, flags *pflag.FlagSet) {
	line := t.command()
	if t.op != nil {
		line = t.op.signature()
	}
	fmt.Fprintf(r.Stdout, "Usage: %s %s [FLAGS]\n", r.Name, line)
	if op := t.op; op != nil {
		fmt.Fprintf(r.Stdout, "\n%s.\n", op.Summary)
		for text := range strings.SplitSeq(op.Description, "\n\n") {
			if text != "" {
				fmt.Fprintf(r.Stdout, "\n%s\n", wrap(text, helpWidth))
			}
		}
		if op.report != nil {
			fmt.Fprintf(r.Stdout, "\nMade of: GET %s\n", op.path)
		} else {
			fmt.Fprintf(r.Stdout, "\nRoute: %s %s\n", op.method, op.path)
		}
		if kinds := op.answerTypes(); len(kinds) > 0 {
			fmt.Fprintf(r.Stdout, "Answer: %s\n", strings.Join(kinds, ", "))
		}
	}
	if flags.HasFlags() {
		fmt.Fprintf(r.Stdout, "\nFlags:\n%s", flags.FlagUsagesWrapped(helpWidth))
	}
	fmt.Fprintf(r.Stdout, "\nRun '%s --help' for the flags of all commands, such as --endpoint, --token-file, --output and --raw.\n", r.Name)
}

// wrap breaks a text into lines.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		if column > 0 && column+1+len(word) > width {
			b.WriteByte('\n')
			column = 0
		} else if column > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
