// Command deskhand runs virtual desktops and serves them over HTTP.
//
//	deskhand server            serve; prints a URL with the token
//	deskhand server --demo     with a desktop, a terminal and a browser to look at
//	deskhand api               call a running server, one command for each route
//	deskhand record            record a desktop of a running server
//	deskhand daemon            run a server in the background
//	deskhand install desktop   install the programs that desktops need
//	deskhand install-agent     install an agent
//	deskhand credentials       find the keys that agents would use
//	deskhand mcp               serve a desktop as MCP tools, on standard input and output
//	deskhand upgrade           replace this program with the newest release
//	deskhand completion        print the completions of a shell
//	deskhand man               print the manual page
//	deskhand health            ask the server of this container whether it is alive
//	deskhand version
//
// Every command has --help. deskhand server takes the flags of sandbox-agent
// 0.4.2, so that it can be put in its place: under that name, or with
// SANDBOX_AGENT_BIN=deskhand for the SDK's local() provider.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/internal/apiclient"
	_ "github.com/deskhand/deskhand/internal/guardian" // this program is its own
)

// version is set by the linker.
var version string

// The exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage

	exitInterrupted = 130 // as shells have it for Ctrl-C
)

// usageError is a command line that was not understood.
type usageError struct {
	text    string
	command string // the one that was misunderstood; empty: none was named
}

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// program is one run of the command, as far as it touches the outside.
type program struct {
	name   string   // as it was called
	argv   []string // its arguments, as the process list shows them
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	// onHelp gets the help of a command in place of its being printed. Nil: it is printed.
	onHelp func(helpText)
}

// helpText is the help of a command. usage is its command line without the program's name.
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
	// The first signal asks for an orderly end; a second one is not waited for,
	// from before anything ends on.
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, end := context.WithCancelCause(context.Background())
	context.AfterFunc(told, func() {
		stop()
		end(context.Cause(told))
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

// commands lists the commands, each with what it does, as help, the manual page
// and the completions show them.
var commands = [][2]string{
	{"server", "serve desktops over HTTP"},
	{"api", "call a running server, one command for each route"},
	{"record", "record a desktop of a running server"},
	{"daemon", "run a server in the background"},
	{"install desktop", "install the programs that desktops need"},
	{"install-agent", "install an agent"},
	{"credentials", "find the keys that agents would use"},
	{"mcp", "serve a desktop as MCP tools, on standard input and output"},
	{"health", "ask the server of this container whether it is alive"},
	{"upgrade", "replace this program with the newest release"},
	{"completion", "print the completions of a shell"},
	{"man", "print the manual page"},
	{"version", "print the version"},
	{"help", "print this"},
}

// overview prints the commands.
func (p program) overview() {
	fmt.Fprintf(p.stdout, "Usage: %s [-t TOKEN | -n] COMMAND [FLAGS]\n\nCommands:\n", p.name)
	for _, c := range commands {
		fmt.Fprintf(p.stdout, "  %-17s  %s\n", c[0], c[1])
	}
	fmt.Fprintf(p.stdout, "\n'%s COMMAND --help' tells a command's flags.\n", p.name)
}

func (p program) dispatch(ctx context.Context, args []string) error {
	var access accessFlags
	flags := p.flags("", "")
	flags.SetInterspersed(false)
	access.register(flags)
	flags.Bool("no-telemetry", false, "")
	flags.Usage = p.overview
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
	switch command, rest := rest[0], rest[1:]; command {
	case "server":
		return inCommand("server", p.server(ctx, access, rest))
	case "api":
		return p.api(ctx, access, rest)
	case "record":
		return inCommand("record", p.record(ctx, access, rest))
	case "daemon":
		return inCommand("daemon", p.daemon(ctx, access, rest))
	case "install":
		return inCommand("install desktop", p.install(ctx, rest))
	case "install-agent":
		return inCommand("install-agent", p.installAgent(ctx, rest))
	case "credentials":
		return inCommand("credentials", p.credentials(rest))
	case mockCommand:
		return inCommand(mockCommand, p.mockAgent(ctx, rest))
	case "mcp":
		return inCommand("mcp", p.mcp(ctx, access, rest))
	case "upgrade":
		return inCommand("upgrade", p.upgrade(ctx, rest))
	case "completion":
		return inCommand("completion", p.completion(rest))
	case completeCommand:
		return p.complete(ctx, rest)
	case "man":
		return inCommand("man", p.man(ctx, rest))
	case "health":
		return inCommand("health", p.health(ctx, rest))
	case "version":
		return inCommand("version", p.showVersion(rest))
	case "help":
		flags.Usage()
		return nil
	default:
		return usagef("there is no command %q", command)
	}
}

// flags makes a flag set that prints help in this program's way.
func (p program) flags(command, about string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard) // errors are printed once, by run
	flags.Usage = func() {
		usage := command
		if flags.HasAvailableFlags() {
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

// ignoreAccess accepts -t and -n for a command that calls no server, as
// sandbox-agent does, and hides the token from the process list.
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

// parse makes every error of the command line a usageError.
func parse(flags *pflag.FlagSet, args []string) error {
	err := flags.Parse(args)
	var invalid *pflag.InvalidValueError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &invalid):
		expected := map[string]string{"uint16": "a number from 0 to 65535", "int64": "a whole number", "int": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a time as 90s or 1h30m"}[invalid.GetFlag().Value.Type()]
		return usagef("--%s must be %s, not %q", invalid.GetFlag().Name, expected, invalid.GetValue())
	}
	return usagef("%s", err)
}

// inCommand says of a usage error which command's help explains it.
func inCommand(command string, err error) error {
	if usage, ok := errors.AsType[*usageError](err); ok {
		usage.command = command
	}
	return err
}

func (p program) showVersion(args []string) error {
	flags := p.flags("version", "Prints the version.")
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("version takes no argument, so not %q", flags.Arg(0))
	}
	return p.version()
}

func (p program) version() error {
	_, err := fmt.Fprintln(p.stdout, "deskhand", versionText())
	return err
}

// versionText is the version of this program: the linker's, or that of the
// module, which go install and go build record.
func versionText() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	return cmp.Or(v, "unknown")
}
