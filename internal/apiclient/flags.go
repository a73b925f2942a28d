package apiclient

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// shorthands are the letters that flags of fields have in sandbox-agent.
var shorthands = map[string]string{"reinstall": "r"}

func newFlagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.Usage = func() {} // ErrHelp reports it
	return flags
}

// generalFlags returns the flags of all operations.
func (r *run) generalFlags() *pflag.FlagSet {
	flags := newFlagSet()
	if r.Register != nil {
		r.Register(flags)
	}
	flags.StringVarP(&r.output, "output", "o", "", "write the answer to `FILE`, complete or not at all; - is standard output")
	flags.BoolVar(&r.resume, "resume", false, "with -o: keep the bytes of a broken download, and continue it next time")
	flags.BoolVarP(&r.include, "include", "i", false, "also print the status and the headers of the answer")
	flags.BoolVar(&r.raw, "raw", false, "print the answer byte for byte, even if it is an error")
	flags.BoolVar(&r.pretty, "pretty", false, "indent JSON also if standard output is not a terminal")
	flags.StringArrayVarP(&r.headers, "header", "H", nil, "send a header `'NAME: VALUE'`; may be repeated")
	return flags
}

// operationFlags returns the flags of an operation, and the fields that they set.
// op is nil for a path, which has the flags of bodies and events alone.
func (r *run) operationFlags(op *operation) (*pflag.FlagSet, []*field) {
	own := newFlagSet()
	if op == nil || op.jsonBody() != nil {
		own.StringVar(&r.json, "json", "", "the body as JSON: `BODY|@FILE|-`, where - is standard input")
		own.StringVar(&r.jsonFile, "json-file", "", "the body as JSON in a `FILE`")
	}
	if op == nil || len(op.rawBodies()) > 0 {
		own.StringVarP(&r.data, "data", "d", "", "the body: `TEXT|@FILE|-`, where - is standard input")
		own.StringVar(&r.contentType, "content-type", "", "media `TYPE` of --data (default: the route's)")
	}
	if op == nil || slices.Contains(op.answerTypes(), eventStream) {
		own.BoolVar(&r.decode, "decode", false, "print only the decoded base64 data of the answer")
	}
	if op == nil {
		return own, nil
	}
	fields, flags := op.fields(), newFlagSet()
	for _, f := range fields {
		if own.Lookup(f.flag) != nil || r.general.Lookup(f.flag) != nil {
			f.flag = string(f.place) + "-" + f.flag
		}
		f.label = "--" + f.flag
	}
	for _, f := range fields {
		if f.place == inBody {
			f.register(flags)
		}
	}
	for _, f := range fields {
		if member := flags.Lookup(f.flag); f.place != inBody && member == nil {
			f.register(flags)
		} else if f.place != inBody {
			member.Value.(*field).twin = f
		}
	}
	flags.AddFlagSet(own)
	return flags, fields
}

// register adds the field's flag.
func (f *field) register(flags *pflag.FlagSet) {
	parts := []string{strings.ReplaceAll(f.about, "`", "'")}
	if f.required {
		parts = append(parts, "(required)")
	}
	object := f.schema
	if f.schema.kind() == "array" {
		object = f.doc.resolve(f.schema.Items)
		parts = append(parts, "(may be repeated)")
	}
	if len(object.Properties) > 0 {
		parts = append(parts, "Keys: "+strings.Join(sortedKeys(object.Properties), ", "))
	}
	flag := flags.VarPF(f, f.flag, shorthands[f.flag], strings.TrimSpace(strings.Join(parts, " ")))
	if f.schema.takes("boolean") {
		flag.NoOptDefVal = "true"
	}
	if len(f.schema.Default) > 0 {
		flag.DefValue = plain(f.schema.Default)
	}
}

// parseFlags reads the arguments behind the target. It reports whether they asked
// for help, which it prints.
func (r *run) parseFlags(t *target) (help bool, err error) {
	own, fields := r.operationFlags(t.op)
	flags := newFlagSet()
	flags.AddFlagSet(own)
	flags.AddFlagSet(r.general)
	if err := flags.Parse(t.rest); errors.Is(err, pflag.ErrHelp) {
		r.describe(t, own)
		return true, nil
	} else if err != nil {
		return false, flagError(err, t)
	}
	t.fields = fields
	given := func(name string) bool {
		f := flags.Lookup(name)
		if f == nil || !f.Changed {
			return false
		}
		_, member := f.Value.(*field)
		return !member
	}
	r.hasJSON, r.hasData = given("json"), given("data")
	if r.jsonFile != "" {
		r.json, r.hasJSON = "@"+r.jsonFile, true
	}
	return false, t.takeArguments(flags.Args())
}

// takeArguments gives arguments to the fields that no flag has set.
func (t *target) takeArguments(args []string) error {
	list, rest := positions(t.fields)
	for _, f := range list {
		switch {
		case f.given():
		case len(args) > 0:
			f.texts, args = []string{args[0]}, args[1:]
			fallthrough
		default:
			f.label = f.argument()
		}
	}
	if rest != nil {
		rest.texts = append(rest.texts, args...)
		return nil
	}
	if len(args) == 0 {
		return nil
	}
	text := ""
	if len(list) == 0 {
		text = "; " + t.command() + " takes no argument"
	}
	return usagef(t.command(), "there is an argument too many: %q%s", args[0], text)
}

// flagError returns an error of flags, or nil for a request for help.
func flagError(err error, t *target) error {
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	return usagef(t.command(), "%s", err)
}
