package main

import (
	"os"
	"strings"

	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/httpapi"
)

// loadSecrets loads the secrets of --secret, each NAME=SOURCE, into cfg, and their variables into
// cfg.Secrets.
func loadSecrets(given []string, cfg *httpapi.Config) error {
	cfg.NamedSecrets = secrets.New()
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
			cfg.Secrets = append(cfg.Secrets, variable)
		}
	}
	return nil
}

// unsetSecrets removes cfg.Secrets, the variables that programs do not get, from the environment.
// All of them must have been read, since two secrets may have one variable.
func unsetSecrets(cfg *httpapi.Config) error {
	for _, name := range cfg.Secrets {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
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
