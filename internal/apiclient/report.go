package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Report is a command that is no route: it calls one, and makes something else
// of the answer.
type Report struct {
	Words   []string
	Summary string // what it does, without a full stop
	About   string // more of it, for its help

	// Path is what is called, with its query. The method is GET.
	Path string

	// Make makes what is printed, as JSON, of the answer. endpoint is where the
	// server is, without a slash at the end.
	Make func(endpoint string, answer []byte) (any, error)
}

// report is the one that the words name; nil: none does.
func (c *Command) report(words []string) *Report {
	for i, p := range c.Reports {
		if len(words) >= len(p.Words) && slices.Equal(words[:len(p.Words)], p.Words) {
			return &c.Reports[i]
		}
	}
	return nil
}

// mostReport bounds the answer that a report is made of.
const mostReport = 32 << 20

// runReport calls the route and prints what is made of its answer.
func (r *run) runReport(ctx context.Context, t *target) error {
	flags := r.generalFlags()
	switch err := flags.Parse(t.rest); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(r.Stdout, "Usage: %s %s [FLAGS]\n\n%s.\n\n%s\n\nMade of: GET %s\n\nFlags of all commands: '%[1]s --help'.\n",
			r.Name, strings.Join(t.words, " "), t.report.Summary, wrap(t.report.About, helpWidth), t.report.Path)
		return nil
	case err != nil:
		return r.flagError(err, flags, t)
	case flags.NArg() > 0:
		return usagef(t.command(), "%s takes no argument, so not %q", t.command(), flags.Arg(0))
	}
	server, err := r.server()
	if err != nil {
		return err
	}
	file, err := r.openOutput(t.command())
	if err != nil {
		return err
	}
	if file != nil {
		defer file.discard()
	}
	c := client()
	defer c.CloseIdleConnections()
	res, err := r.send(ctx, c, server, &request{method: http.MethodGet, path: t.report.Path, header: http.Header{}})
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		if err := t.report.replace(server, res); err != nil {
			return r.interrupted(ctx, err)
		}
	}
	return r.interrupted(ctx, r.print(ctx, res, file))
}

// replace puts what is made of the answer in its place.
func (p *Report) replace(server Server, res *http.Response) error {
	answer, err := io.ReadAll(io.LimitReader(res.Body, mostReport))
	if err != nil {
		return err
	}
	made, err := p.Make(strings.TrimRight(server.URL.Scheme+"://"+server.URL.Host+server.URL.EscapedPath(), "/"), answer)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	text, err := marshal(made)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	res.Body, res.ContentLength = io.NopCloser(strings.NewReader(string(text))), int64(len(text))
	res.Header.Set("Content-Type", jsonType)
	res.Header.Del("Content-Length")
	return nil
}

// listReports adds those to a list whose words begin so.
func (r *run) listReports(words []string) {
	title := false
	for _, p := range r.Reports {
		if len(p.Words) < len(words) || !slices.Equal(p.Words[:len(words)], words) {
			continue
		}
		if !title {
			fmt.Fprintln(r.Stdout, "\nReports")
			title = true
		}
		fmt.Fprintf(r.Stdout, "  %-44s  %s\n", strings.Join(p.Words, " "), p.Summary)
	}
}
