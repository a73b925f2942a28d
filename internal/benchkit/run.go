package benchkit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
)

// Options are the flags that every command has.
type Options struct {
	Rows   *regexp.Regexp // matches the keys of the rows to measure
	Quick  bool           // measure little, to see that it works
	Binary string         // the deskhand to measure
}

// Parse adds the flags -row, -quick and -deskhand to f, and parses args. It returns
// an error if args has more than flags.
func (o *Options) Parse(f *flag.FlagSet, args []string, stderr io.Writer) error {
	f.SetOutput(stderr)
	filter := f.String("row", "", "only rows whose key matches this regular expression")
	f.BoolVar(&o.Quick, "quick", false, "few calls and short times: to see that it works")
	f.StringVar(&o.Binary, "deskhand", "", "the deskhand to measure, instead of one built from this tree")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see -help", f.Arg(0))
	}
	var err error
	o.Rows, err = regexp.Compile(*filter)
	return err
}

// Run is one run of a command.
type Run struct {
	Dir    string // for files
	Binary string // the deskhand to measure

	progress io.Writer
	load     string // average, before the run
}

// Start begins a run: it makes Dir, and builds Binary if Options names none. The
// caller must call Close.
func Start(ctx context.Context, o Options, progress io.Writer) (*Run, error) {
	dir, err := os.MkdirTemp("", "deskhand-bench-")
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, progress: progress, load: LoadAverage()}
	r.Tell("finding or building deskhand")
	if r.Binary, err = Binary(ctx, o.Binary, dir); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close removes Dir.
func (r *Run) Close() error { return os.RemoveAll(r.Dir) }

// Tell prints a line about the progress.
func (r *Run) Tell(format string, args ...any) { fmt.Fprintf(r.progress, format+"\n", args...) }

// Describe writes what was measured, and on which machine.
func (r *Run) Describe(ctx context.Context, w io.Writer) error {
	machine, err := Machine()
	if err != nil {
		return err
	}
	version, err := Version(ctx, r.Binary, "version")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s.\nLoad average of the machine before the run: %s; after it: %s.\ndeskhand: %s.\n", machine, r.load, LoadAverage(), version)
	return err
}
