package sdktest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)( |$)`)
	helpOption  = regexp.MustCompile(`(?m)^ +(?:(-[a-zA-Z]), )?(--[a-z-]+)( [^ ]+)?(?:  |$)`)
)

// option is a flag as a program's help shows it.
type option struct {
	short    string // "-t", or empty
	hasValue bool
}

func options(help string) map[string]option {
	all := map[string]option{}
	for _, m := range helpOption.FindAllStringSubmatch(help, -1) {
		all[m[2]] = option{m[1], m[3] != ""}
	}
	return all
}

// TestCommandLine compares the help of every command with sandbox-agent's:
// deskhand must have the command and all of its flags.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	theirs, err := ReferenceBinary(required(t))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := built()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	help := func(binary string, words []string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append(slices.Clone(words), "--help")...)
		cmd.Env = append(cmd.Environ(), "HOME="+home)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s %q: %v", binary, words, err)
		}
		return string(out)
	}
	// Flags that stand before the command or belong to all commands of the API.
	common := options(help(ours, nil) + help(ours, []string{"api"}))
	compared := 0
	var compare func(words []string)
	compare = func(words []string) {
		text := help(theirs, words)
		if _, commands, ok := strings.Cut(text, "\nCommands:\n"); ok {
			commands, _, _ = strings.Cut(commands, "\n\n")
			for _, m := range helpCommand.FindAllStringSubmatch(commands, -1) {
				if m[1] != "help" && m[1] != "opencode" { // which is disabled there
					compare(append(slices.Clone(words), m[1]))
				}
			}
			return
		}
		compared++
		have := options(help(ours, words))
		for name, want := range options(text) {
			got, ok := have[name]
			if !ok {
				got, ok = common[name]
			}
			switch {
			case name == "--help":
			case !ok:
				t.Errorf("%s has no %s", strings.Join(words, " "), name)
			case want.short != "" && got.short != want.short || got.hasValue != want.hasValue:
				t.Errorf("%s %s: %+v, want %+v", strings.Join(words, " "), name, got, want)
			}
		}
	}
	compare(nil)
	if compared < 14 {
		t.Errorf("only %d commands were compared", compared)
	}
}
