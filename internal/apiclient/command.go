package apiclient

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Command is the command line. All fields but Reports and Register must be set.
type Command struct {
	// Name is the program and the command, such as "deskhand api".
	Name string

	// Document is the OpenAPI document that the commands are made of.
	Document []byte

	// Reports are further commands, which are not routes.
	Reports []Report

	// Register adds the flags that Connect reads.
	Register func(*pflag.FlagSet)

	// Connect returns the server. It is called after the flags were parsed.
	Connect func() (Server, error)

	// Stdin is read where the command line says "-". Stdout gets the answer and
	// nothing else. Stderr gets notes about a terminal. Only an *os.File can be a
	// terminal.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Server is the server that a command calls.
type Server struct {
	URL   *url.URL
	Token string // empty to send none
}

// base returns the URL that paths are appended to.
func (s Server) base() string {
	return strings.TrimRight(s.URL.Scheme+"://"+s.URL.Host+s.URL.EscapedPath(), "/")
}

// Report is a command that calls a route and prints something made of its answer.
type Report struct {
	Words   []string
	Summary string // one line without a full stop
	About   string // further help
	Tag     string // the heading that lists show it under
	Path    string // of the route, with its query. The method is GET.

	// Make returns what is printed as JSON. endpoint is the server's URL without a
	// slash at the end.
	Make func(endpoint string, answer []byte) (any, error)
}

// Next is a word that may follow on a command line.
type Next struct{ Word, About string }

// options are the values of flags that do not belong to one operation.
type options struct {
	json        string
	jsonFile    string
	data        string
	contentType string
	output      string
	headers     []string
	include     bool
	raw         bool
	pretty      bool
	decode      bool
	resume      bool
}

// run is one use of a command.
type run struct {
	*Command
	options
	doc     *document
	general *pflag.FlagSet // the flags of all operations
	hasJSON bool           // --json or --json-file was given
	hasData bool
}

func (c *Command) newRun() (*run, error) {
	doc, err := parse(c.Document, c.Reports)
	if err != nil {
		return nil, err
	}
	r := &run{Command: c, doc: doc}
	r.general = r.generalFlags()
	return r, nil
}

// Run runs a command line, which is given without the command's own name.
func (c *Command) Run(ctx context.Context, args []string) error {
	r, err := c.newRun()
	if err != nil {
		return err
	}
	t, err := r.locate(args)
	if err != nil {
		return err
	}
	if t.op == nil && t.path == "" {
		r.list(t)
		return nil
	}
	switch help, err := r.parseFlags(t); {
	case err != nil || help:
		return err
	case t.op != nil && t.op.upgrades():
		return r.attach(ctx, t)
	}
	return r.call(ctx, t)
}

// Complete returns the words of commands that may follow words, and the flags that
// may be given there. It returns neither if the words name no command.
func (c *Command) Complete(words []string) ([]Next, *pflag.FlagSet, error) {
	r, err := c.newRun()
	if err != nil {
		return nil, nil, err
	}
	t, err := r.locate(words)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // nothing follows a wrong command line
	}
	flags, _ := r.operationFlags(t.op)
	flags.AddFlagSet(r.general)
	if t.path != "" {
		return nil, flags, nil
	}
	return r.doc.following(t.words), flags, nil
}

// target is what a command line names: an operation by its words, a group of
// operations, or a method and a path.
type target struct {
	words        []string
	op           *operation // nil for a group or a path
	help         bool       // help about the whole command was asked for
	method, path string     // empty for words
	rest         []string   // the arguments that follow
	fields       []*field   // of op
}

// command returns what the caller named, for help and messages.
func (t *target) command() string {
	if t.path != "" {
		return t.method + " " + t.path
	}
	return strings.Join(t.words, " ")
}

// locate finds the target of a command line. General flags may stand before it.
func (r *run) locate(args []string) (*target, error) {
	t := &target{}
	r.general.SetInterspersed(false)
	if err := r.general.Parse(args); err != nil {
		t.help = errors.Is(err, pflag.ErrHelp)
		return t, flagError(err, t)
	}
	args = r.general.Args()
	if len(args) == 0 {
		return t, nil
	}
	if strings.HasPrefix(args[0], "/") {
		args = slices.Concat([]string{"GET"}, args)
	}
	if slices.Contains(methods, args[0]) || args[0] == "HEAD" || args[0] == "OPTIONS" {
		if len(args) == 1 || !strings.HasPrefix(args[1], "/") {
			return nil, usagef("", "%s what? A path follows, as in: %s %[1]s /v1/health", args[0], r.Name)
		}
		t.method, t.path, t.rest = args[0], args[1], args[2:]
		return t, nil
	}
	op, used := r.doc.find(args)
	t.op, t.words, t.rest = op, args[:used], args[used:]
	if op != nil {
		return t, nil
	}
	r.general.SetInterspersed(true)
	if err := r.general.Parse(t.rest); err != nil {
		return t, flagError(err, t)
	}
	if r.general.NArg() > 0 {
		return nil, usagef(t.command(), "there is no command '%s'", strings.TrimSpace(t.command()+" "+r.general.Arg(0)))
	}
	return t, nil
}
