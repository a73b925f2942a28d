package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/agents/registry"
)

const (
	aboutExtract = `Prints as JSON the API keys and tokens that agents find on this machine: in the
environment first, then in the files of amp, claude, codex, opencode and gemini.
The values are masked unless --reveal is given.`

	aboutExtractEnv = `Prints the same credentials as lines NAME=VALUE for a shell or a container, not masked.`
)

// credentialFlags are the flags of both commands.
type credentialFlags struct {
	home    string
	noOAuth bool
}

func (f *credentialFlags) register(p program, flags *pflag.FlagSet) {
	flags.StringVarP(&f.home, "home-dir", "d", "", "`directory` to look in (default $HOME)")
	flags.BoolVar(&f.noOAuth, "no-oauth", false, "leave out OAuth tokens")
	p.ignoreAccess(flags)
}

func (p program) credentials(_ context.Context, _ accessFlags, args []string) error {
	const which = "credentials what? There are: credentials extract, credentials extract-env"
	flags := p.flags("credentials extract|extract-env [FLAGS]", aboutExtract+"\n\nextract-env: "+aboutExtractEnv)
	flags.SetInterspersed(false)
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if args = flags.Args(); len(args) == 0 {
		return usagef(which)
	}
	switch args[0] {
	case "extract":
		return inCommand("credentials extract", p.extract(args[1:]))
	case "extract-env":
		return inCommand("credentials extract-env", p.extractEnv(args[1:]))
	}
	return usagef(which)
}

// credentialAgents are the agents whose credentials find can find.
var credentialAgents = []string{"claude", "codex", "opencode", "amp", "gemini"}

func (p program) extract(args []string) error {
	var f credentialFlags
	flags := p.flags("credentials extract", aboutExtract)
	agent := flags.StringP("agent", "a", "", "only credentials that this `agent` uses: "+strings.Join(credentialAgents, "|"))
	provider := flags.StringP("provider", "p", "", "only credentials of this `provider`, such as anthropic")
	reveal := flags.BoolP("reveal", "r", false, "show the values instead of masking them")
	f.register(p, flags)
	if err := parseNone(flags, args); err != nil {
		return err
	}
	if *agent != "" && !slices.Contains(credentialAgents, *agent) {
		return usagef("--agent must be one of %s, not %q", strings.Join(credentialAgents, ", "), *agent)
	}
	list, err := f.find(*agent)
	if err != nil {
		return err
	}
	return p.printCredentials(list, *provider, *reveal)
}

// find returns the credentials of an agent, or of all agents for "".
func (f credentialFlags) find(agent string) ([]registry.Credential, error) {
	r, err := registry.New(registry.Config{Home: homeOr(f.home)})
	if err != nil {
		return nil, err
	}
	if f.home != "" {
		if info, err := os.Stat(f.home); err != nil || !info.IsDir() {
			return nil, usagef("--home-dir %s is not a directory", f.home)
		}
	}
	return r.Credentials(registry.CredentialOptions{Agent: agent, NoOAuth: f.noOAuth})
}

// shownCredential is a credential in the JSON of sandbox-agent.
type shownCredential struct {
	Provider string                  `json:"provider"`
	Source   string                  `json:"source"`
	Where    string                  `json:"where"`
	Type     registry.CredentialType `json:"auth_type"`
	Key      string                  `json:"api_key"`
	Redacted bool                    `json:"redacted"`
}

// printCredentials prints two providers by name, all others below "other".
func (p program) printCredentials(list []registry.Credential, provider string, reveal bool) error {
	var out struct {
		Anthropic *shownCredential           `json:"anthropic"`
		OpenAI    *shownCredential           `json:"openai"`
		Other     map[string]shownCredential `json:"other"`
	}
	out.Other = map[string]shownCredential{}
	for _, found := range list {
		if provider != "" && found.Provider != provider {
			continue
		}
		c := shownCredential{found.Provider, found.Source, found.Where, found.Type, found.Secret.String(), !reveal}
		if reveal {
			c.Key = found.Secret.Reveal()
		}
		switch found.Provider {
		case "anthropic":
			out.Anthropic = &c
		case "openai":
			out.OpenAI = &c
		default:
			out.Other[found.Provider] = c
		}
	}
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

func (p program) extractEnv(args []string) error {
	var f credentialFlags
	flags := p.flags("credentials extract-env", aboutExtractEnv)
	export := flags.BoolP("export", "e", false, "write export before each line")
	f.register(p, flags)
	if err := parseNone(flags, args); err != nil {
		return err
	}
	list, err := f.find("")
	if err != nil {
		return err
	}
	before := ""
	if *export {
		before = "export "
	}
	for _, c := range list {
		value := c.Secret.Reveal()
		if strings.ContainsFunc(value, unicode.IsControl) {
			fmt.Fprintf(p.stderr, "%s: the key of %[3]s in %[2]s holds a control character and is left out\n", p.name, c.Where, c.Provider)
			continue
		}
		if *export {
			value = quoteForShell(value)
		}
		for _, name := range keyNames(c) {
			if _, err := fmt.Fprintf(p.stdout, "%s%s=%s\n", before, name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyNames returns the environment variables that agents read a credential from.
func keyNames(c registry.Credential) []string {
	switch c.Provider {
	case "anthropic":
		names := []string{"ANTHROPIC_API_KEY", "CLAUDE_API_KEY"}
		if c.Type == registry.OAuth {
			names = append(names, "CLAUDE_CODE_OAUTH_TOKEN") // it is not accepted as a key
		}
		return names
	case "openai":
		return []string{"OPENAI_API_KEY", "CODEX_API_KEY"}
	case "google":
		return []string{"GEMINI_API_KEY"}
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, c.Provider)
	return []string{name + "_API_KEY"}
}

// quoteForShell quotes a text as one word of a shell.
func quoteForShell(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/+=@%,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
