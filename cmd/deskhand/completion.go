package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/internal/apiclient"
)

const aboutCompletion = `Prints the completions of a shell. To load them in every new shell:

  bash   deskhand completion bash >~/.local/share/bash-completion/completions/deskhand
  zsh    deskhand completion zsh >DIR/_deskhand, where DIR is one of $fpath
  fish   deskhand completion fish >~/.config/fish/completions/deskhand.fish`

// completeCommand prints the words that may come next on a command line, for the
// scripts of the shells. The last argument is the word under the cursor.
const completeCommand = "__complete"

// completionScripts are the completions by shell. They call completeCommand, and
// offer files if it prints nothing.
var completionScripts = map[string]string{
	"bash": `# bash completion of deskhand
_deskhand() {
	mapfile -t COMPREPLY < <(deskhand ` + completeCommand + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
}
complete -o default -F _deskhand deskhand sandbox-agent
`,
	"zsh": `#compdef deskhand sandbox-agent
# zsh completion of deskhand
_deskhand() {
	local line
	local -a candidates
	for line in "${(@f)$(deskhand ` + completeCommand + ` "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( $#candidates )); then
		_describe deskhand candidates
	else
		_files
	fi
}
if [[ $funcstack[1] == _deskhand ]]; then
	_deskhand "$@"
else
	compdef _deskhand deskhand sandbox-agent
fi
`,
	"fish": `# fish completion of deskhand
function __deskhand_complete
	set -l words (commandline -opc) (commandline -ct)
	deskhand ` + completeCommand + ` $words[2..-1] 2>/dev/null
end
complete -c deskhand -n 'test (count (__deskhand_complete)) -gt 0' -f -a '(__deskhand_complete)'
complete -c sandbox-agent -w deskhand
`,
}

var completionShells = []string{"bash", "zsh", "fish"}

func (p program) completion(_ context.Context, _ accessFlags, args []string) error {
	flags := p.flags("completion "+strings.Join(completionShells, "|"), aboutCompletion)
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	script, ok := completionScripts[flags.Arg(0)]
	if !ok || flags.NArg() > 1 {
		return usagef("completion of which shell? There are: %s", strings.Join(completionShells, ", "))
	}
	_, err := fmt.Fprint(p.stdout, script)
	return err
}

// complete prints the words that may replace the last argument, one a line, each
// with a tab and its meaning.
func (p program) complete(ctx context.Context, _ accessFlags, args []string) error {
	// bash splits --flag=value in three.
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "=" })
	if len(args) == 0 {
		args = []string{""}
	}
	words, current := args[:len(args)-1], args[len(args)-1]
	for _, next := range (completer{p}).following(ctx, words, current) {
		if strings.HasPrefix(next.Word, current) {
			about, _, _ := strings.Cut(next.About, "\n")
			if _, err := fmt.Fprintf(p.stdout, "%s\t%s\n", next.Word, strings.ReplaceAll(about, "\t", " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// completer finds the words that may follow others on a command line.
type completer struct{ program }

// following returns the words that may follow words, or the flags if current
// begins as one.
func (p completer) following(ctx context.Context, words []string, current string) []apiclient.Next {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") { // -t TOKEN, -n
		if words[0] == "-t" || words[0] == "--token" {
			words = words[1:]
		}
		words = words[min(1, len(words)):]
	}
	if len(words) == 0 {
		return firstWords()
	}
	command, rest := words[0], words[1:]
	if i := slices.Index(rest, "--"); i >= 0 && command == "daemon" {
		command, rest = "server", rest[i+1:]
	}
	next, flags := p.nextOf(ctx, command, rest)
	if flags != nil && len(rest) > 0 {
		if f := valued(flags, rest[len(rest)-1]); f != nil {
			return choices(f)
		}
	}
	if !strings.HasPrefix(current, "-") {
		return next
	}
	return flagWords(flags)
}

// firstWords returns the commands.
func firstWords() []apiclient.Next {
	var next []apiclient.Next
	for _, c := range listedCommands() {
		next = append(next, apiclient.Next{Word: c.word(), About: c.about})
	}
	return next
}

// nextOf returns the words that may follow a command, and its flags, which it takes
// from the command's help.
func (p completer) nextOf(ctx context.Context, name string, rest []string) ([]apiclient.Next, *pflag.FlagSet) {
	if name == "api" {
		words := rest
		if len(words) > 0 && strings.HasPrefix(words[len(words)-1], "-") {
			words = words[:len(words)-1] // its value follows
		}
		c := p.apiCommand(&clientFlags{})
		next, flags, _ := c.Complete(words)
		return next, flags
	}
	if !slices.ContainsFunc(listedCommands(), func(c command) bool { return c.word() == name }) {
		return nil, nil
	}
	line := []string{name}
	var next []apiclient.Next
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		line = append(line, rest[0])
	} else if len(rest) == 0 {
		next = argumentsOf(name)
	}
	help := p.helpOf(ctx, line)
	return next, help.flags
}

// argumentsOf returns the arguments of a command that accepts only a few.
func argumentsOf(command string) []apiclient.Next {
	words := map[string][]string{
		"install": {"desktop"}, "daemon": {"start", "stop", "status"}, "credentials": {"extract", "extract-env"},
		"completion": completionShells,
	}[command]
	if command == "install-agent" {
		words = agentNames()
	}
	var next []apiclient.Next
	for _, w := range words {
		next = append(next, apiclient.Next{Word: w})
	}
	return next
}

// helpOf returns the help of a command.
func (p completer) helpOf(ctx context.Context, command []string) (help helpText) {
	p.onHelp = func(h helpText) { help = h }
	_ = p.dispatch(ctx, append(slices.Clone(command), "--help"))
	return help
}

// valued returns the flag that a word names if its value is the next word, else nil.
func valued(flags *pflag.FlagSet, word string) *pflag.Flag {
	var f *pflag.Flag
	if name, ok := strings.CutPrefix(word, "--"); ok && name != "" {
		f = flags.Lookup(name)
	} else if letters, ok := strings.CutPrefix(word, "-"); ok && letters != "" {
		f = flags.ShorthandLookup(letters[len(letters)-1:])
	}
	if f == nil || f.NoOptDefVal != "" {
		return nil
	}
	return f
}

// choices returns the values of a flag that accepts only a few.
func choices(f *pflag.Flag) []apiclient.Next {
	var next []apiclient.Next
	name, _ := pflag.UnquoteUsage(f)
	for word := range strings.SplitSeq(name, "|") {
		if strings.Contains(name, "|") && word == strings.ToLower(word) {
			next = append(next, apiclient.Next{Word: word})
		}
	}
	return next
}

// flagWords returns the flags as words.
func flagWords(flags *pflag.FlagSet) []apiclient.Next {
	if flags == nil {
		return nil
	}
	next := []apiclient.Next{{Word: "--help", About: "print help"}}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Usage != "" {
			_, about := pflag.UnquoteUsage(f)
			next = append(next, apiclient.Next{Word: "--" + f.Name, About: about})
		}
	})
	return next
}
