package apiclient

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// generalFlags are those that do not depend on the operation.
func (r *run) generalFlags() *pflag.FlagSet {
	flags := newFlagSet()
	if r.Register != nil {
		r.Register(flags)
	}
	flags.StringVarP(&r.output, "output", "o", r.output, "write the answer to `FILE`, complete or not at all; - is standard output")
	flags.BoolVar(&r.resume, "resume", r.resume, "with -o: keep what comes of a broken download, and go on from there next time")
	flags.BoolVarP(&r.include, "include", "i", r.include, "print the status and the headers of the answer, too")
	flags.BoolVar(&r.raw, "raw", r.raw, "print the answer byte for byte, and that of an error, too")
	flags.BoolVar(&r.pretty, "pretty", r.pretty, "indent JSON, as on a terminal, wherever it goes")
	flags.VarP((*list)(&r.headers), "header", "H", "send a header, given as `'NAME: VALUE'`; may be repeated")
	flags.BoolVar(&r.noProgress, "no-progress", r.noProgress, "show no progress of long transfers")
	flags.BoolVar(&r.serverSpec, "server-spec", r.serverSpec, "take the commands from the server's /openapi.json, not from those built in")
	// What was given already is no default: help must not show a token.
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.DefValue != "" {
			f.DefValue = ""
		}
	})
	return flags
}

// list is a flag that may be given more than once, before the words and behind.
type list []string

func (l *list) String() string     { return strings.Join(*l, ", ") }
func (l *list) Type() string       { return "list" }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// parse reads the command line behind the words. Without inputs and error it was
// a request for help, which is done.
func (r *run) parse(t *target) (*inputs, error) {
	general, whole, stream := r.generalFlags(), r.bodyFlags(t.op), r.streamFlags(t.op)
	in, params, members := fieldFlags(t.op, general, whole, stream)
	flags := newFlagSet()
	for _, set := range []*pflag.FlagSet{members, params, whole, stream, general} {
		flags.AddFlagSet(set)
	}
	err := flags.Parse(t.rest)
	if errors.Is(err, pflag.ErrHelp) {
		return nil, r.describe(t, []flagGroup{
			{"Members of the body", members}, {"Parameters", params}, {"The body as a whole", whole}, {"Events", stream},
		})
	}
	if err != nil {
		return nil, r.flagError(err, flags, t)
	}
	r.hasJSON, r.hasData = flags.Changed("json"), flags.Changed("data")
	if t.path == "" {
		return in, in.arguments(flags.Args(), t.command())
	}
	if flags.NArg() > 0 {
		return nil, usagef(t.command(), "there is an argument too many: %q", flags.Arg(0))
	}
	return in, nil
}

func newFlagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.Usage = func() {} // ErrHelp says it
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		parts := strings.Split(name, ".")
		for i, part := range parts {
			parts[i] = kebab(part)
		}
		return pflag.NormalizedName(strings.Join(parts, "."))
	})
	return flags
}

// bodyFlags are those by which a whole body is given; op is nil for a path that
// is not documented, which may take any.
func (r *run) bodyFlags(op *Operation) *pflag.FlagSet {
	flags := newFlagSet()
	if op == nil || op.jsonBody() != nil {
		flags.StringVar(&r.json, "json", "", "the body as JSON: `BODY|@FILE|-`; flags for its members go on top")
	}
	if op == nil || len(op.rawBodies()) > 0 {
		flags.StringVar(&r.data, "data", "", "the body: `TEXT|@FILE|-`, where - is standard input")
		flags.StringVar(&r.contentType, "content-type", "", "what --data is, as a media `TYPE`; told from the data, unless given")
	}
	return flags
}

// streamFlags are those of operations that answer with events.
func (r *run) streamFlags(op *Operation) *pflag.FlagSet {
	flags := newFlagSet()
	if op == nil || op.streams() {
		flags.BoolVar(&r.events, "events", false, "print the names and ids of events, too: {\"event\",\"id\",\"data\"} a line")
		flags.BoolVar(&r.decode, "decode", false, "print what base64 data in the answer stands for, and nothing else")
	}
	return flags
}

// input is what the user gave for a field.
type input struct {
	*field
	texts []string
	label string // how the user calls it
	twin  *input // a parameter that has the same name as this member of the body
}

func (in *input) String() string     { return strings.Join(in.texts, ",") }
func (in *input) Type() string       { return in.typeName() }
func (in *input) Set(s string) error { in.texts = append(in.texts, s); return nil }

// given says whether there is a value.
func (in *input) given() bool { return len(in.texts) > 0 }

// inputs are what an operation's fields are given.
type inputs struct {
	all       []*input
	positions []*input
	rest      *input
}

// fieldFlags makes flags of an operation's fields, those of a body apart from
// the others. Names that are taken get the place in front.
func fieldFlags(op *Operation, taken ...*pflag.FlagSet) (in *inputs, params, body *pflag.FlagSet) {
	in, params, body = &inputs{}, newFlagSet(), newFlagSet()
	if op == nil {
		return in, params, body
	}
	fields := op.fields()
	positions, rest := byPosition(fields)
	for _, f := range fields {
		if slices.ContainsFunc(taken, func(t *pflag.FlagSet) bool { return t.Lookup(f.flag) != nil }) {
			f.flag = string(f.place) + "-" + f.flag
		}
		v := &input{field: f, label: "--" + f.flag}
		if f.place == inPath {
			v.label = f.argument()
		}
		in.all = append(in.all, v)
		if slices.Contains(positions, f) {
			in.positions = append(in.positions, v)
		}
		if f == rest {
			in.rest = v
		}
		if f.place == inBody {
			v.register(body)
		}
	}
	for _, v := range in.all {
		switch same := body.Lookup(v.flag); {
		case v.place == inPath || v.place == inBody:
		case same != nil:
			same.Value.(*input).twin = v
		default:
			v.register(params)
		}
	}
	return in, params, body
}

// register adds the field's flag.
func (in *input) register(flags *pflag.FlagSet) {
	if flags.Lookup(in.flag) != nil {
		return // a second spelling
	}
	f := flags.VarPF(in, in.flag, "", in.usage())
	if in.kind() == booleanKind {
		f.NoOptDefVal = "true"
	}
	f.DefValue = ""
	if len(in.schema.Default) > 0 {
		f.DefValue = plain(in.schema.Default)
	}
}

// usage is the line of help about a field.
func (in *input) usage() string {
	about := strings.Join(strings.Fields(strings.ReplaceAll(in.about, "`", "'")), " ")
	if about == "" && in.kind() == objectKind {
		about = "all of it at once"
	}
	parts := []string{about}
	if in.required {
		parts = append(parts, "(required)")
	}
	if in.kind() == arrayKind {
		item := in.doc.resolve(in.schema.Items)
		if properties, _ := in.doc.properties(item); len(properties) > 0 {
			parts = append(parts, "Each with "+strings.Join(sortedKeys(properties), ", "))
		}
		parts = append(parts, "(may be repeated)")
	}
	if len(in.schema.Examples) > 0 && about == "" && in.kind() != arrayKind {
		parts = append(parts, "as in "+plain(in.schema.Examples[0]))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// arguments shares out what stands behind the words.
func (in *inputs) arguments(args []string, command string) error {
	var open []*input
	for _, v := range in.positions {
		if !v.given() {
			open = append(open, v)
		}
	}
	for i, arg := range args {
		switch {
		case i < len(open):
			open[i].texts, open[i].label = []string{arg}, open[i].argument()
		case in.rest != nil:
			in.rest.texts = append(in.rest.texts, arg)
		default:
			return usagef(command, "there is an argument too many: %q", arg)
		}
	}
	for _, v := range in.positions {
		if v.place == inPath && (!v.given() || v.texts[0] == "") {
			return usagef(command, "%s is missing", v.argument())
		}
	}
	return nil
}

// flagError tells what is wrong with a flag, in this program's words.
func (r *run) flagError(err error, flags *pflag.FlagSet, t *target) error {
	var (
		unknown *pflag.NotExistError
		needs   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	command := t.command()
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		text := "there is no flag --" + name
		if unknown.GetSpecifiedShortnames() != "" {
			text = "there is no flag -" + name
			if strings.Trim(unknown.GetSpecifiedShortnames(), "0123456789.") == "" {
				text += "; arguments that begin with - stand behind --"
			}
		} else if near := nearFlag(flags, name); near != "" {
			text += "; did you mean --" + near + "?"
		}
		return &unknownError{text, command}
	case errors.As(err, &needs):
		return usagef(command, "--%s needs a value", needs.GetSpecifiedName())
	case errors.As(err, &invalid):
		return usagef(command, "--%s must be true or false, not %q", invalid.GetFlag().Name, invalid.GetValue())
	}
	return usagef(command, "%s", err)
}

// nearFlag is the flag that a name is most like; empty: none is.
func nearFlag(flags *pflag.FlagSet, name string) string {
	name = kebab(name)
	best, least := "", 3
	flags.VisitAll(func(f *pflag.Flag) {
		cost := distance(name, f.Name)
		if strings.HasPrefix(f.Name, name) || strings.HasSuffix(f.Name, name) {
			cost = min(cost, 2)
		}
		if cost < least {
			best, least = f.Name, cost
		}
	})
	return best
}
