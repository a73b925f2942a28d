package main

import (
	"os"
	"strings"

	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/httpapi"
)

// loadSecrets loads the secrets of --secret, each NAME=SOURCE, into cfg. It removes their
// variables from the environment, and keeps them from the programs that the server starts.
func loadSecrets(given []string, cfg *httpapi.Config) error {
	cfg.NamedSecrets = secrets.New()
	var variables []string
	for _, text := range given {
		name, source, _ := strings.Cut(text, "=")
		if _, twice := cfg.NamedSecrets.Value(name); twice {
			return usagef("--secret: %.64q is given twice", name)
		}
		variable, err := cfg.NamedSecrets.Load(name, source)
		if err != nil {
			return usagef("--secret: %s", err)
		}
		if variable != "" {
			variables = append(variables, variable)
		}
	}
	return withhold(cfg, variables) // after all are loaded, since two secrets may have one variable
}

// withhold keeps variables that have been read from the programs that the server starts.
func withhold(cfg *httpapi.Config, variables []string) error {
	for _, name := range variables {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	cfg.Secrets = append(cfg.Secrets, variables...)
	return nil
}

// isSecretSource reports whether --secret or --ice-server names a variable in the arguments of a
// program.
func isSecretSource(args []string, variable string) bool {
	for _, arg := range args {
		if strings.HasSuffix(arg, "=env:"+variable) || strings.HasSuffix(arg, ",env:"+variable) {
			return true
		}
	}
	return false
}
