package main

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/apiclient"
)

const defaultEndpoint = "http://127.0.0.1:2468"

// clientFlags name the server that a command calls.
type clientFlags struct {
	accessFlags
	endpoint string
}

func (f *clientFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.endpoint, "endpoint", "e", f.endpoint, "`URL` of the server (default $DESKHAND_ENDPOINT or "+defaultEndpoint+")")
	flags.StringVarP(&f.token, "token", "t", f.token, "`token` of the server; safer in a file or in DESKHAND_TOKEN")
	flags.StringVar(&f.tokenFile, "token-file", f.tokenFile, "`file` that holds the token (default $DESKHAND_TOKEN_FILE)")
	flags.BoolVarP(&f.noToken, "no-token", "n", f.noToken, "send no token")
}

// api calls routes of a running server.
func (p program) api(ctx context.Context, access accessFlags, args []string) error {
	c := p.apiCommand(&clientFlags{accessFlags: access})
	err := c.Run(ctx, args)
	if usage, ok := errors.AsType[*apiclient.UsageError](err); ok {
		return &usageError{text: usage.Text, command: strings.TrimSpace("api " + usage.Command)}
	}
	return err
}

// apiCommand returns the command line of api, whose flags are read into f.
func (p program) apiCommand(f *clientFlags) apiclient.Command {
	return apiclient.Command{
		Name: p.name + " api", Document: httpapi.OpenAPI(), Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr,
		Reports:  []apiclient.Report{agentsReport},
		Register: f.register,
		Connect: func() (apiclient.Server, error) {
			server, err := f.server()
			hide(server.Token, p.argv)
			return server, err
		},
	}
}

// server returns the server that flags and environment name. The token may be in the
// URL, as the server prints it.
func (f clientFlags) server() (apiclient.Server, error) {
	if f.endpoint == "" {
		f.endpoint = variable("ENDPOINT")
	}
	if f.endpoint == "" {
		f.endpoint = defaultEndpoint
	}
	text := f.endpoint
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return apiclient.Server{}, usagef("--endpoint must be a URL such as %s, not %q", defaultEndpoint, f.endpoint)
	}
	if token := u.Query().Get("token"); token != "" && f.token == "" && f.tokenFile == "" && !f.noToken {
		f.token = token
	}
	f.environment()
	token, err := f.resolve()
	return apiclient.Server{URL: u, Token: token}, err
}
