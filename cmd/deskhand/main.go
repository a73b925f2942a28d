// Command deskhand runs virtual desktops and serves them over HTTP.
//
//	deskhand server            serve; prints a URL with the token
//	deskhand server --demo     serve, with a terminal and a browser on a desktop
//	deskhand api               call a running server, one command for each route
//	deskhand record            record a desktop of a running server
//	deskhand daemon            run a server in the background
//	deskhand opencode          open OpenCode's terminal UI with any agent
//	deskhand install desktop   install the programs that desktops need
//	deskhand install-agent     install an agent
//	deskhand credentials       find the API keys that agents would use
//	deskhand mcp               serve a desktop as MCP tools, on standard input and output
//	deskhand acp               connect an editor to an agent of a running server
//	deskhand upgrade           replace this program with the newest release
//	deskhand completion        print a shell's completions
//	deskhand man               print the manual page
//	deskhand health            check whether this container's server is alive
//	deskhand version
//
// Every command has --help. deskhand server takes the flags of sandbox-agent
// 0.4.2 and can replace it: under that name, or with SANDBOX_AGENT_BIN=deskhand for
// the SDK's local() provider.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/deskhand/deskhand/internal/apiclient"
	_ "github.com/deskhand/deskhand/internal/guardian" // this program is its own guardian
)

// version is set by the linker.
var version string

// The exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage

	exitInterrupted = 130 // the status of shells after Ctrl-C
)

// usageError reports a wrong command line.
type usageError struct {
	text    string
	command string // whose help explains it, or empty
}

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// program is one run of the program: its arguments and standard streams.
type program struct {
	name   string   // of the file that was called
	argv   []string // the arguments, in the memory that the process list shows
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	// onHelp, if not nil, receives the help of a command instead of standard output.
	onHelp func(helpText)
}

// helpText is the help of a command.
type helpText struct {
	usage, about string
	flags        *pflag.FlagSet
}

func main() {
	p := program{name: filepath.Base(os.Args[0]), argv: os.Args[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	if err := conceal(); err != nil {
		fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
		os.Exit(exitFailure)
	}
	// The first signal asks for an orderly end. From then on a second one ends the
	// program immediately.
	signaled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, end := context.WithCancelCause(context.Background())
	context.AfterFunc(signaled, func() {
		stop()
		end(context.Cause(signaled))
	})
	status := p.run(ctx, ownCopy(p.argv))
	stop()
	os.Exit(status)
}

// run runs the command line and returns the exit status.
func (p program) run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	var usage *usageError
	var interrupted *apiclient.InterruptedError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return exitOK
	case errors.As(err, new(loggedError)):
		if errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailure
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "%s: %v\nTry '%s --help'.\n", p.name, err, strings.TrimSpace(p.name+" "+usage.command))
		return exitUsage
	case errors.As(err, &interrupted):
		if interrupted.Text != "" {
			fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
		}
		return exitInterrupted
	}
	fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	return exitFailure
}

// command is a command of the program.
type command struct {
	name  string // such as "install desktop"
	about string // for help, the manual page and completions; empty hides the command
	run   func(p program, ctx context.Context, access accessFlags, args []string) error
}

// word returns the first word of the name, which calls the command.
func (c command) word() string {
	word, _, _ := strings.Cut(c.name, " ")
	return word
}

func commands() []command {
	return []command{
		{"server", "serve desktops over HTTP", program.server},
		{"api", "call a running server, one command for each route", program.api},
		{"record", "record a desktop of a running server", program.record},
		{"daemon", "run a server in the background", program.daemon},
		{"opencode", "open OpenCode's terminal UI with any agent", program.openCode},
		{"gigacode", "the same as opencode", program.gigacode},
		{"install desktop", "install the programs that desktops need", program.install},
		{"install-agent", "install an agent", program.installAgent},
		{"credentials", "find the API keys that agents would use", program.credentials},
		{"mcp", "serve a desktop as MCP tools, on standard input and output", program.mcp},
		{"acp", "connect an editor to an agent of a running server, on standard input and output", program.acp},
		{"health", "check whether this container's server is alive", program.health},
		{"upgrade", "replace this program with the newest release", program.upgrade},
		{"completion", "print a shell's completions", program.completion},
		{"man", "print the manual page", program.man},
		{"version", "print the version", program.showVersion},
		{"help", "print this help", program.overview},
		{mockCommand, "", program.mockAgent},
		{completeCommand, "", program.complete},
	}
}

// listedCommands returns the commands that are not hidden.
func listedCommands() []command {
	return slices.DeleteFunc(commands(), func(c command) bool { return c.about == "" })
}

// overview is the command help.
func (p program) overview(_ context.Context, _ accessFlags, args []string) error {
	flags := p.flags("help", "Prints the commands.")
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	return p.printCommands()
}

// printCommands prints the commands.
func (p program) printCommands() error {
	fmt.Fprintf(p.stdout, "Usage: %s [-t TOKEN | -n] COMMAND [FLAGS]\n\nCommands:\n", p.name)
	for _, c := range listedCommands() {
		fmt.Fprintf(p.stdout, "  %-17s  %s\n", c.name, c.about)
	}
	_, err := fmt.Fprintf(p.stdout, "\nRun '%s COMMAND --help' for the flags of a command.\n", p.name)
	return err
}

func (p program) dispatch(ctx context.Context, args []string) error {
	var access accessFlags
	flags := p.flags("", "")
	flags.SetInterspersed(false)
	access.register(flags)
	flags.Bool("no-telemetry", false, "")
	flags.Usage = func() { _ = p.printCommands() }
	showVersion := flags.BoolP("version", "V", false, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	hide(access.token, p.argv)
	if *showVersion {
		return p.version()
	}
	rest := flags.Args()
	if len(rest) == 0 {
		return usagef("a command is missing: server, api, record, install desktop or version")
	}
	for _, c := range commands() {
		if c.word() == rest[0] {
			return inCommand(c.name, c.run(p, ctx, access, rest[1:]))
		}
	}
	return usagef("there is no command %q", rest[0])
}

// flags returns an empty flag set, whose help shows the usage, which is the command
// line without the program's name and flags.
func (p program) flags(usage, about string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(usage, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard) // run prints errors
	flags.Usage = func() {
		if flags.HasAvailableFlags() && !strings.Contains(usage, "[FLAGS]") {
			usage += " [FLAGS]"
		}
		p.showHelp(helpText{usage, about, flags})
	}
	return flags
}

// showHelp prints the help of a command.
func (p program) showHelp(h helpText) {
	if p.onHelp != nil {
		p.onHelp(h)
		return
	}
	fmt.Fprintf(p.stdout, "Usage: %s %s\n\n%s\n", p.name, h.usage, h.about)
	if h.flags.HasAvailableFlags() {
		fmt.Fprintf(p.stdout, "\nFlags:\n%s", h.flags.FlagUsages())
	}
}

// ignoreAccess accepts -t and -n for a command that calls no server, like
// sandbox-agent, and hides the token from the process list.
func (p program) ignoreAccess(flags *pflag.FlagSet) {
	flags.FuncP("token", "t", "", func(token string) error {
		hide(token, p.argv)
		return nil
	})
	flags.BoolP("no-token", "n", false, "")
	for _, name := range []string{"token", "no-token"} {
		_ = flags.MarkHidden(name)
	}
}

// parse parses flags. Its errors are usage errors, or pflag.ErrHelp.
func parse(flags *pflag.FlagSet, args []string) error {
	err := flags.Parse(args)
	var invalid *pflag.InvalidValueError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &invalid):
		expected := map[string]string{"uint16": "a number from 0 to 65535", "int64": "a whole number", "int": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a time such as 90s or 1h30m"}[invalid.GetFlag().Value.Type()]
		return usagef("--%s must be %s, not %q", invalid.GetFlag().Name, expected, invalid.GetValue())
	}
	return usagef("%s", err)
}

// parseNone is parse for a command that takes flags only.
func parseNone(flags *pflag.FlagSet, args []string) error {
	err := parse(flags, args)
	if err == nil && flags.NArg() > 0 {
		err = usagef("%s takes no argument, so not %q", flags.Name(), flags.Arg(0))
	}
	return err
}

// inCommand sets the command whose help explains a usage error, unless the error
// names one.
func inCommand(command string, err error) error {
	if usage, ok := errors.AsType[*usageError](err); ok {
		usage.command = cmp.Or(usage.command, command)
	}
	return err
}

func (p program) showVersion(_ context.Context, _ accessFlags, args []string) error {
	flags := p.flags("version", "Prints the version.")
	p.ignoreAccess(flags)
	if err := parseNone(flags, args); err != nil {
		return err
	}
	return p.version()
}

func (p program) version() error {
	_, err := fmt.Fprintln(p.stdout, "deskhand", versionText())
	return err
}

// versionText returns the version of this program: the linker's, or the module's,
// which go install and go build record.
func versionText() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	return cmp.Or(v, "unknown")
}

// confirm asks the user on the terminal, and returns an error unless the answer is
// yes. refused is its text.
func (p program) confirm(question, refused string) error {
	if !term.IsTerminal(int(p.stdin.Fd())) {
		return usagef("standard input is no terminal to ask on; give --yes")
	}
	fmt.Fprint(p.stdout, question+" [y/N] ")
	answer, err := bufio.NewReader(p.stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New(refused)
	}
	return nil
}

// oneLine returns the single line of a file that holds a secret.
func oneLine(text []byte) (string, bool) {
	line := strings.TrimSpace(string(text))
	return line, line != "" && !strings.ContainsAny(line, "\r\n")
}
