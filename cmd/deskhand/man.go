package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// manIntroduction and manEnd surround the commands in the manual page.
const (
	manIntroduction = `deskhand runs virtual Linux desktops, shows them live in a browser, acts on them, records them, and hosts coding agents, processes and files beside them, behind one HTTP API. It is a drop-in replacement for sandbox-agent 0.4.2 and can run under that name.`

	manEnd = `.SH ENVIRONMENT
.TP
.B DESKHAND_HOST\fR, \fBDESKHAND_PORT\fR, \fBDESKHAND_TOKEN\fR, \fBDESKHAND_TOKEN_FILE
Replace the flags \-\-host, \-\-port, \-\-token and \-\-token\-file.
.TP
.B DESKHAND_ENDPOINT
The URL of the server that clients call.
.TP
.B DESKHAND_DATABASE
Replaces \-\-database.
.TP
.B DESKHAND_BASE_URL
The URL where deskhand upgrade finds releases.
.PP
deskhand also reads the variables of sandbox\-agent, such as SANDBOX_AGENT_HOST. Its own variables win.
.SH FILES
.TP
.I $XDG_STATE_HOME/deskhand
Sessions and the files of desktops, unless \-\-state\-dir names another directory.
.TP
.I $XDG_DATA_HOME/deskhand
Installed agents, and the files of servers in the background.
.SH EXIT STATUS
0 for success, 1 for a failure, 2 for a wrong command line, 130 after Ctrl\-C.
`
)

// man prints the manual page, which consists of the help of all commands.
func (p program) man(ctx context.Context, _ accessFlags, args []string) error {
	flags := p.flags("man", "Prints the manual page, for man(1).")
	p.ignoreAccess(flags)
	if err := parseNone(flags, args); err != nil {
		return err
	}
	p.name = "deskhand"
	var page strings.Builder
	fmt.Fprintf(&page, ".TH DESKHAND 1 \"\" \"deskhand %s\" \"User Commands\"\n", roff(strings.TrimPrefix(versionText(), "v")))
	page.WriteString(".SH NAME\ndeskhand \\- virtual Linux desktops over HTTP\n.SH SYNOPSIS\n.B deskhand\n[\\-t TOKEN | \\-n] COMMAND [FLAGS]\n")
	fmt.Fprintf(&page, ".SH DESCRIPTION\n%s\n.SH COMMANDS\n", roff(manIntroduction))
	for _, c := range listedCommands() {
		words := strings.Fields(c.name)
		switch c.name {
		case "api":
			page.WriteString(".SS deskhand api\nCalls a running server, one command for each route. \\(oqdeskhand api\\(cq lists the commands, \\(oqdeskhand api \\-\\-help\\(cq their common flags.\n")
		case "help":
		case "credentials":
			manCommand(&page, (completer{p}).helpOf(ctx, append(words, "extract")))
			manCommand(&page, (completer{p}).helpOf(ctx, append(words, "extract-env")))
		default:
			manCommand(&page, (completer{p}).helpOf(ctx, words))
		}
	}
	page.WriteString(manEnd)
	_, err := fmt.Fprint(p.stdout, page.String())
	return err
}

// manCommand writes the help of a command.
func manCommand(page *strings.Builder, h helpText) {
	fmt.Fprintf(page, ".SS deskhand %s\n", roff(h.usage))
	for i, paragraph := range strings.Split(h.about, "\n\n") {
		if i > 0 {
			page.WriteString(".PP\n")
		}
		if table := strings.HasPrefix(paragraph, " "); table {
			fmt.Fprintf(page, ".nf\n%s\n.fi\n", roff(paragraph))
		} else {
			fmt.Fprintf(page, "%s\n", roff(paragraph))
		}
	}
	h.flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Usage == "" {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(page, ".TP\n\\fB%s\\fR", roff(name))
		if value != "" {
			fmt.Fprintf(page, " \\fI%s\\fR", roff(value))
		}
		fmt.Fprintf(page, "\n%s\n", roff(about))
	})
}

// roff escapes a text for man(7).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
