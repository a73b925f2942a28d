package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// agentEnviron returns an environment with the test's programs only.
func agentEnviron(t *testing.T, set ...string) []string {
	t.Helper()
	env := environ(t, set...)
	return append(env, "PATH="+t.TempDir(), "XDG_DATA_HOME="+filepath.Join(strings.TrimPrefix(home(env), "HOME="), "data"))
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstallAgentCommand(t *testing.T) {
	t.Parallel()
	own := writeFile(t, filepath.Join(t.TempDir(), "agents.json"), `{"agents":{"mine":{"command":["/bin/true"]}}}`, 0o600)
	broken := writeFile(t, filepath.Join(t.TempDir(), "agents.json"), `{"agents":{"mine":{"cmd":["/bin/true"]}}}`, 0o600)
	for _, c := range []struct {
		args   string
		status int
		text   string // somewhere in the output
	}{
		{"mock", exitOK, "mock is already installed: " + binary},
		{"mock --reinstall", exitOK, "mock is installed: " + binary},
		{"mine --agents-config " + own, exitOK, "mine is already installed: /bin/true"},
		{"mine --agents-config " + broken, exitFailure, `unknown field "cmd"`},
		{"codex", exitFailure, "install codex: resolve: npm is not installed; install Node.js 20"},
		{"amp", exitFailure, "put amp-acp on PATH"},
		{"--all", exitFailure, "install gemini: resolve: npm is not installed"},
		{"--all", exitFailure, "amp is skipped: npm has no package of it\n"},
		{"--all", exitFailure, "cursor is skipped: its own program, cursor-agent, is not on PATH; install Cursor's command line"},
		{"--all", exitFailure, "mock is skipped: it is part of this program\n"},
		{"--all --agents-config " + own, exitFailure, "mine is skipped: its command is configured\n"},
		{"nope", exitUsage, `there is no agent "nope"; there are: claude, codex`},
		{"", exitUsage, "install which agent?"},
		{"a b", exitUsage, "install which agent?"},
		{"--all codex", exitUsage, "--all installs every agent"},
		{"--all --agent-version 1", exitUsage, "--all excludes"},
		{"codex --agent-version ../x", exitUsage, "agentVersion must be a version"},
		{"--help", exitOK, "Names: claude, codex, opencode, amp, pi, cursor, gemini, mock."},
	} {
		got := runCommandLine(t, agentEnviron(t), append([]string{"install-agent"}, strings.Fields(c.args)...)...)
		if got.status != c.status || !strings.Contains(got.stdout+got.stderr, c.text) {
			t.Errorf("%q: %+v", c.args, got)
		}
		if c.status == exitUsage && !strings.Contains(got.stderr, "install-agent --help") {
			t.Errorf("%q does not name the help: %s", c.args, got.stderr)
		}
	}
}

func TestCredentialsCommand(t *testing.T) {
	t.Parallel()
	const key, token = "sk-ant-0123456789-anthropic", "eyJ-0123456789-codex"
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, ".codex/auth.json"), `{"tokens":{"access_token":"`+token+`"}}`, 0o600)
	writeFile(t, filepath.Join(dir, ".local/share/opencode/auth.json"),
		`{"my-groq":{"type":"api","key":"it's a key"},"bad":{"type":"api","key":"two\nlines"}}`, 0o600)
	env := agentEnviron(t, "ANTHROPIC_API_KEY="+key)
	run := func(args string) result {
		return runCommandLine(t, env, append([]string{"credentials"}, strings.Fields(args)...)...)
	}
	masked := run("extract -d " + dir)
	if masked.status != exitOK || strings.Contains(masked.stdout, key) || strings.Contains(masked.stdout, token) {
		t.Errorf("masked: %+v", masked)
	}
	var all struct {
		Anthropic, OpenAI *shownCredential
		Other             map[string]shownCredential
	}
	if err := json.Unmarshal([]byte(run("extract -r -d "+dir).stdout), &all); err != nil {
		t.Fatal(err)
	}
	if all.Anthropic.Key != key || all.Anthropic.Source != "environment" || all.OpenAI.Key != token || all.OpenAI.Type != "oauth" ||
		all.Other["my-groq"].Key != "it's a key" || all.OpenAI.Redacted {
		t.Errorf("revealed: %+v", all)
	}
	for args, want := range map[string]string{
		"extract -d " + dir + " --no-oauth":  `"openai": null`,
		"extract -d " + dir + " -a codex":    `"anthropic": null`,
		"extract -d " + dir + " -p my-groq":  `"anthropic": null`,
		"extract -d " + dir + " -p my-groq ": `"my-groq": {`,
	} {
		if got := run(args); got.status != exitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	lines := run("extract-env -e -d " + dir)
	want := []string{
		"export ANTHROPIC_API_KEY=" + key, "export CLAUDE_API_KEY=" + key, `export MY_GROQ_API_KEY='it'\''s a key'`,
		"export OPENAI_API_KEY=" + token, "export CODEX_API_KEY=" + token,
	}
	if got := strings.Split(strings.TrimSpace(lines.stdout), "\n"); !slices.Equal(got, want) || !strings.Contains(lines.stderr, "the key of bad in ") {
		t.Errorf("extract-env: %q, %s", got, lines.stderr)
	}
	quoted := runCommandLine(t, agentEnviron(t, "OPENAI_API_KEY=it's"), "credentials", "extract-env", "-e", "-d", t.TempDir())
	if quoted.stdout != "export OPENAI_API_KEY='it'\\''s'\nexport CODEX_API_KEY='it'\\''s'\n" {
		t.Errorf("a key that has to be quoted: %q", quoted.stdout)
	}
	if got := run("extract-env --no-oauth -d " + dir).stdout; strings.Contains(got, token) || !strings.Contains(got, "\nMY_GROQ_API_KEY=it's a key\n") {
		t.Errorf("without tokens: %s", got)
	}
	for args, text := range map[string]string{
		"": "credentials what?", "show": "credentials what?", "extract x": "takes no argument", "extract-env x": "takes no argument",
		"extract -a nope": "--agent must be one of", "extract -d " + dir + "/none": "is not a directory",
	} {
		if got := run(args); got.status != exitUsage || !strings.Contains(got.stderr, text) {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestMockAgentProcess starts it as the host of agents does.
func TestMockAgentProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), binary, mockCommand)
	cmd.Env = agentEnviron(t)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":1}}` + "\n")
	got := finish(t, cmd)
	if got.status != exitOK || !strings.Contains(got.stdout, `"id":"a"`) || !strings.Contains(got.stdout, `"version":"v1.2.3-test"`) {
		t.Errorf("%+v", got)
	}
	if got := runCommandLine(t, environ(t), mockCommand, "x"); got.status != exitUsage {
		t.Errorf("an argument: %+v", got)
	}
	homeless := exec.CommandContext(t.Context(), binary, mockCommand)
	homeless.Env = append(agentEnviron(t), "HOME=/dev/null/none", "XDG_STATE_HOME=")
	homeless.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":1}}` + "\n")
	got = finish(t, homeless)
	if got.status != exitOK || strings.Contains(got.stdout, `"loadSession":true`) || !strings.Contains(got.stderr, "forgotten") {
		t.Errorf("a user without a home: %+v", got)
	}
}

// TestAgentsOverHTTP has a server with an agent of its user's.
func TestAgentsOverHTTP(t *testing.T) {
	t.Parallel()
	own := writeFile(t, filepath.Join(t.TempDir(), "agents.json"), `{"agents":{"mine":{"command":["/bin/true"],"name":"Mine"}}}`, 0o600)
	s := serve(t, agentEnviron(t), "--agents-config", own)
	var report reported
	s.wantAPI(t, &report, "agents", "report")
	if report.Endpoint != s.base || report.Generated == 0 || len(report.Agents) != 9 {
		t.Errorf("report: %+v", report)
	}
	i := slices.IndexFunc(report.Agents, func(a reportedAgent) bool { return a.ID == "codex" })
	codex := report.Agents[i]
	if codex.Installed || codex.Models.Current != "gpt-5.3-codex" || len(codex.Models.Values) != 6 || codex.Modes.Current != "read-only" ||
		codex.Thoughts.Current != "high" || len(codex.Thoughts.Values) != 4 {
		t.Errorf("codex: %+v", codex)
	}
	if text := s.wantAPI(t, nil, "agents", "report", "--raw"); !strings.Contains(text, `"id":"mine","installed":true,"models":{"values":[]}`) {
		t.Errorf("raw: %s", text)
	}
	// The mock agent is this program.
	var mock struct {
		Path, Version, ConfigError string
		Options                    []any `json:"configOptions"`
	}
	s.wantAPI(t, &mock, "agents", "get", "mock", "--config", "--no-cache")
	if mock.Path != binary || mock.Version != "v1.2.3-test" || mock.ConfigError != "" || len(mock.Options) != 3 {
		t.Errorf("mock: %+v", mock)
	}
	for args, text := range map[string]string{
		"agents --help": "agents report", "agents report --help": "Made of: GET /v1/agents?config=true", "agents modes codex": `"read-only"`,
	} {
		if got := s.wantAPI(t, nil, strings.Fields(args)...); !strings.Contains(got, text) {
			t.Errorf("%s: %s", args, got)
		}
	}
	if got := s.api(t, "agents", "report", "x"); got.status != exitUsage || !strings.Contains(got.stderr, "takes no argument") {
		t.Errorf("an argument: %+v", got)
	}
	if got := runCommandLine(t, append(environ(t), "DESKHAND_ENDPOINT="+s.base), "api", "agents", "report"); got.status != exitFailure || !strings.Contains(got.stderr, "Token Invalid") && !strings.Contains(got.stderr, "token") {
		t.Errorf("without a token: %+v", got)
	}
	if got := runCommandLine(t, environ(t), "server", "--port", "0", "--agents-config", own+".none"); got.status != exitFailure || !strings.Contains(got.stderr, "no such file") {
		t.Errorf("no file: %+v", got)
	}
}
