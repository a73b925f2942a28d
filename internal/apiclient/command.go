package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Command is the command line. Name, Document and the three streams must be
// set.
type Command struct {
	// Name is what the user calls it by, as "deskhand api".
	Name string

	// Document is the OpenAPI document that the commands are made of. A server
	// of another version is asked for its own when a command or a flag is not
	// in it.
	Document []byte

	// Reports are further commands. Their words go before those of routes.
	Reports []Report

	// Register adds flags that Connect reads, to every set of flags that is
	// parsed: their defaults must be the values that they have so far. Nil:
	// there are none.
	Register func(*pflag.FlagSet)

	// Connect tells where the server is, once the flags are parsed. Nil:
	// http://127.0.0.1:2468 without a token.
	Connect func() (Server, error)

	// Stdin is read where the command line says "-". Stdout gets the answer and
	// nothing else, Stderr the progress of long transfers when it is a
	// terminal. What is an *os.File is asked whether it is a terminal.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Server is whom the command talks to.
type Server struct {
	URL   *url.URL
	Token string // empty: none is sent
}

// options are the flags that all operations have, as far as they apply.
type options struct {
	json        string
	data        string
	contentType string
	output      string
	headers     []string
	include     bool
	raw         bool
	pretty      bool
	events      bool
	decode      bool
	resume      bool
	noProgress  bool
	serverSpec  bool
}

// run is one call of the command.
type run struct {
	*Command
	options
	doc     *Document
	hasJSON bool // --json was given, maybe as an empty text
	hasData bool
}

// Run runs the command line, which is that of the user without the command's
// own name.
func (c *Command) Run(ctx context.Context, args []string) error {
	r := &run{Command: c}
	builtIn, err := Parse(c.Document)
	if err != nil {
		return err
	}
	if slices.Contains(args, "--server-spec") {
		r.readAhead(args)
		if r.doc, err = r.fetchDocument(ctx); err != nil {
			fmt.Fprintf(c.Stderr, "%s: the commands are those built in: %v\n", c.Name, err)
			r.doc = builtIn
		}
		return asUsage(r.once(ctx, args))
	}
	r.doc = builtIn
	err = r.once(ctx, args)
	if _, ok := errors.AsType[*unknownError](err); !ok {
		return err
	}
	// The server may be of another version than this program.
	r = &run{Command: c}
	r.readAhead(args)
	if r.doc, _ = r.fetchDocument(ctx); r.doc == nil {
		return asUsage(err)
	}
	return asUsage(r.once(ctx, args))
}

// unknownError is a command or a flag that is not in the document.
type unknownError struct{ text, command string }

func (e *unknownError) Error() string { return e.text }

func asUsage(err error) error {
	if unknown, ok := errors.AsType[*unknownError](err); ok {
		return &UsageError{Command: unknown.command, Text: unknown.text}
	}
	return err
}

// readAhead looks for the flags that say where the server is, wherever they
// stand. What is wrong is found later.
func (r *run) readAhead(args []string) {
	flags := r.generalFlags()
	flags.ParseErrorsAllowlist.UnknownFlags = true
	_ = flags.Parse(args)
	r.options = options{}
}

func (r *run) once(ctx context.Context, args []string) error {
	t, err := r.locate(args)
	if err != nil {
		return err
	}
	if t.report != nil {
		return r.runReport(ctx, t)
	}
	if t.op == nil && t.path == "" {
		return r.list(t)
	}
	in, err := r.parse(t)
	switch {
	case err != nil || in == nil:
		return err
	case t.op != nil && t.op.upgrades():
		return r.attach(ctx, t, in)
	}
	return r.call(ctx, t, in)
}

// target is what a command line is about.
type target struct {
	words []string   // that were used
	op    *Operation // nil: a group, a report, or a path that is not documented
	help  bool       // of a group was asked for

	report *Report // nil: it is none

	method, path string            // of the raw form
	values       map[string]string // the parameters of its path

	rest []string // the command line behind the words
}

// command is what the user called, for help and messages.
func (t *target) command() string {
	if t.path != "" {
		return t.method + " " + t.path
	}
	return strings.Join(t.words, " ")
}

// locate finds what the command line is about. The flags that all operations
// have may stand before the words, and between them.
func (r *run) locate(args []string) (*target, error) {
	t := &target{}
	for {
		flags := r.generalFlags()
		flags.SetInterspersed(false)
		err := flags.Parse(args)
		if errors.Is(err, pflag.ErrHelp) {
			t.help = true
			return t, nil
		}
		if err != nil {
			return nil, r.flagError(err, flags, t)
		}
		args = flags.Args()
		if len(args) == 0 {
			return t, nil
		}
		if len(t.words) == 0 && (isMethod(args[0]) || strings.HasPrefix(args[0], "/")) {
			return r.locateRaw(args)
		}
		if len(t.words) == 0 {
			args = renamed(args)
		}
		n := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
		if n < 0 {
			n = len(args)
		}
		words := slices.Concat(t.words, args[:n])
		if report := r.report(words); report != nil {
			used := len(report.Words)
			t.rest, t.report, t.words = args[used-len(t.words):], report, words[:used]
			return t, nil
		}
		op, used := r.doc.find(words)
		if op == nil && used < len(words) {
			return nil, r.unknownWords(words, used)
		}
		args = args[used-len(t.words):]
		t.words = words[:used]
		if t.op = op; op != nil || len(args) == 0 {
			t.rest = args
			return t, nil
		}
	}
}

// locateRaw understands METHOD /path and /path.
func (r *run) locateRaw(args []string) (*target, error) {
	t := &target{}
	if isMethod(args[0]) {
		t.method, args = strings.ToUpper(args[0]), args[1:]
		if len(args) == 0 || !strings.HasPrefix(args[0], "/") {
			return nil, usagef("", "%s what? A path follows, as in: %s %s /v1/health", t.method, r.Name, t.method)
		}
	}
	t.path, t.rest = args[0], args[1:]
	path, _, _ := strings.Cut(t.path, "?")
	if t.method == "" {
		t.method = "GET"
		if op, _ := r.doc.match("POST", path); hasBody(args) || op != nil && r.only(op) {
			t.method = "POST"
		}
	}
	t.op, t.values = r.doc.match(t.method, path)
	return t, nil
}

// hasBody says whether a command line gives a body.
func hasBody(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == "--json" || name == "--data"
	})
}

// only says whether a path has no operation but this.
func (r *run) only(op *Operation) bool {
	return !slices.ContainsFunc(r.doc.operations, func(o *Operation) bool { return o != op && o.Path == op.Path })
}

func isMethod(word string) bool {
	return slices.Contains(append([]string{"HEAD", "OPTIONS"}, methods...), word)
}

// unknownWords says that there is no such command, and what there is.
func (r *run) unknownWords(words []string, used int) error {
	text := "there is no command " + quote(strings.Join(words[:used+1], " "))
	if near := r.doc.suggest(words); len(near) > 0 {
		lines := make([]string, len(near))
		for i, n := range near {
			lines[i] = quote(r.Name + " " + n)
		}
		text += "; did you mean " + oneOf(lines) + "?"
	}
	return &unknownError{text, strings.Join(words[:used], " ")}
}

func quote(s string) string { return "'" + s + "'" }
