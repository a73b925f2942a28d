package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// keyring writes the credential files of agents to a home, and returns it.
func keyring(t testing.TB, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(home, name), text, 0o600)
	}
	return home
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	const past, future = "1000", "99999999999999"
	claude := `{"claudeAiOauth":{"accessToken":"oat-claude","expiresAt":` + future + `}}`
	for name, tc := range map[string]struct {
		files map[string]string
		env   []string
		o     CredentialOptions
		want  string // provider type source secret, ...
	}{
		"nothing": {nil, nil, CredentialOptions{}, ""},
		"environment": {
			nil,
			[]string{"CLAUDE_API_KEY=k2", "ANTHROPIC_API_KEY=k1", "CODEX_API_KEY=k3", "GEMINI_API_KEY=k4"},
			CredentialOptions{},
			"anthropic api_key environment k1, google api_key environment k4, openai api_key environment k3",
		},
		"environment before files": {
			map[string]string{".claude.json": `{"primaryApiKey":"file"}`},
			[]string{"CLAUDE_API_KEY=env"},
			CredentialOptions{},
			"anthropic api_key environment env",
		},
		"blank": {nil, []string{"ANTHROPIC_API_KEY= ", "OPENAI_API_KEY="}, CredentialOptions{}, ""},
		"files": {
			map[string]string{
				".claude.json":                    `{"numStartups":3,"primaryApiKey":"k1"}`,
				".codex/auth.json":                `{"OPENAI_API_KEY":null,"tokens":{"access_token":"t2"}}`,
				".local/share/opencode/auth.json": `{"openai":{"type":"api","key":"other"},"groq":{"type":"api","key":"k3"},"x":7,"old":{"type":"oauth","access":"a","expires":` + past + `}}`,
				".gemini/oauth_creds.json":        `{"access_token":"t4"}`,
			},
			nil,
			CredentialOptions{},
			"anthropic api_key claude k1, google oauth gemini t4, groq api_key opencode k3, openai oauth codex t2",
		},
		"token": {map[string]string{".claude/.credentials.json": claude}, nil, CredentialOptions{}, "anthropic oauth claude oat-claude"},
		"token, not wanted": {
			map[string]string{".claude/.credentials.json": claude, ".codex/auth.json": `{"tokens":{"access_token":"t2"}}`, ".gemini/oauth_creds.json": `{"access_token":"t4"}`},
			[]string{"CLAUDE_CODE_OAUTH_TOKEN=t"},
			CredentialOptions{NoOAuth: true},
			"",
		},
		"token, over": {
			map[string]string{".claude/.credentials.json": strings.Replace(claude, future, past, 1)}, nil, CredentialOptions{}, "",
		},
		"token, over in words": {
			map[string]string{".claude/.credentials.json": strings.Replace(claude, future, `"2020-01-02T03:04:05Z"`, 1)}, nil, CredentialOptions{}, "",
		},
		"amp": {
			map[string]string{".amp/config.json": `{"auth":{"apiKey":"deep"}}`, ".claude.json": `{"apiKey":"k"}`},
			nil,
			CredentialOptions{},
			"anthropic api_key amp deep",
		},
		"of one agent": {
			map[string]string{".amp/config.json": `{"token":"amp"}`, ".claude.json": `{"apiKey":"k"}`, ".codex/auth.json": `{"OPENAI_API_KEY":"o"}`},
			nil,
			CredentialOptions{Agent: "claude"},
			"anthropic api_key claude k",
		},
		"not JSON": {
			map[string]string{".claude.json": `{`, ".codex/auth.json": `[]`, ".local/share/opencode/auth.json": `"x"`, ".amp/config.json/x": ""},
			nil,
			CredentialOptions{},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, Config{Home: keyring(t, tc.files), Env: append([]string{"PATH=/"}, tc.env...)})
			list, err := r.Credentials(tc.o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range list {
				got = append(got, strings.Join([]string{c.Provider, string(c.Type), c.Source, c.Secret.Reveal()}, " "))
				if c.Where == "" {
					t.Errorf("%s: Where is empty", c.Provider)
				}
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
		})
	}
}

func TestAgentsWithCredentials(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"":                    "pi cursor mock",
		"ANTHROPIC_API_KEY=x": "claude opencode amp pi cursor mock",
		"CODEX_API_KEY=x":     "codex opencode pi cursor mock",
		"GOOGLE_API_KEY=x":    "pi cursor gemini mock",
	} {
		r := newRegistry(t, Config{Env: []string{"HOME=" + t.TempDir(), env}})
		var got []string
		for _, id := range r.IDs() {
			if r.AgentsWithCredentials()[id] {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", env, got)
		}
	}
	r := newRegistry(t, Config{})
	if _, err := r.Credentials(CredentialOptions{Agent: "nope"}); !errors.Is(err, ErrUnknownAgent) {
		t.Errorf("nope: %v", err)
	}
}

// TestHugeCredentialFiles: files that would take a hundred times their size when they are
// decoded cost little, and the key in a history of Claude Code is found.
func TestHugeCredentialFiles(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	home := t.TempDir()
	bomb := strings.Repeat(`{"":0},`, 15<<20/7)
	for file, text := range map[string]string{
		".claude.json":                    `{"history":[` + bomb[:len(bomb)-1] + `],"primaryApiKey":"sk-found"}`,
		".codex/auth.json":                `{"a":[` + bomb[:len(bomb)-1] + `]}`,
		".amp/config.json":                `{"apiKey":[` + bomb[:1<<20/7*7-15] + `0]}`,
		".local/share/opencode/auth.json": `{` + strings.Repeat(`"k":{},`, 1<<20/8) + `"openai":{"type":"api","key":"x"}}`,
	} {
		path := filepath.Join(home, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r := newRegistry(t, Config{Env: []string{"HOME=" + home}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all, err := r.Credentials(CredentialOptions{})
	runtime.ReadMemStats(&after)
	if err != nil || len(all) != 2 || all[0].Secret.Reveal() != "sk-found" || all[1].Secret.Reveal() != "x" {
		t.Errorf("credentials are %+v, %v", all, err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 400 {
		t.Errorf("%d MiB were allocated", used)
	}
}

// TestSecretsStaySecret prints a secret in every way in which a program may print it by
// mistake.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"sk-ant-0123456789-secret", "short", ""} {
		c := Credential{Provider: "anthropic", Type: APIKey, Secret: Secret{text}}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("found", "credential", c, "secret", c.Secret, "pointer", &c)
		slog.New(slog.NewTextHandler(&log, nil)).Info("found", "credential", c, "secret", c.Secret, "pointer", &c)
		asJSON, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		all := log.String() + string(asJSON) + fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Secret, c.Secret)
		if text != "" && strings.Contains(all, text) {
			t.Errorf("%s is printed in %s", text, all)
		}
		if c.Secret.Reveal() != text {
			t.Errorf("revealed: %q", c.Secret.Reveal())
		}
	}
	if got := (Secret{"sk-ant-0123456789-secret"}).String(); got != "sk-a...cret" {
		t.Errorf("masked: %s", got)
	}
}
