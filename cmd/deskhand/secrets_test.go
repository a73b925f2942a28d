package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestLoadSecrets(t *testing.T) {
	t.Setenv("DESKHAND_TEST_A", "hunter2")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("hunter3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := httpapi.Config{Secrets: []string{"OTHER"}}
	if err := loadSecrets([]string{"A=env:DESKHAND_TEST_A", "A2=env:DESKHAND_TEST_A", "B=file:" + file}, &cfg); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "hunter2", "A2": "hunter2", "B": "hunter3"} {
		if got, _ := cfg.NamedSecrets.Value(name); got != want {
			t.Errorf("%s = %q", name, got)
		}
	}
	if got := strings.Join(cfg.Secrets, " "); !strings.HasPrefix(got, "OTHER DESKHAND_TEST_A") {
		t.Errorf("variables that programs do not get: %s", got)
	}
	t.Setenv("DESKHAND_TEST_A", "hunter2")
	for _, given := range [][]string{{"A"}, {"=env:DESKHAND_TEST_A"}, {"A=DESKHAND_TEST_A"}, {"A=env:DESKHAND_TEST_A", "A=file:" + file}, {"A=file:/"}} {
		if err := loadSecrets(given, &cfg); err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v", given, err)
		}
	}
}

// TestSecretsOfOneVariable wants a variable given to a secret and to a TURN server read by both, and
// then removed from the environment.
func TestSecretsOfOneVariable(t *testing.T) {
	t.Setenv("DESKHAND_TEST_A", "hunter2")
	var f serverFlags
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	f.register(flags)
	if err := flags.Parse([]string{"--ice-server", "turn:a,ann,env:DESKHAND_TEST_A", "--secret", "A=env:DESKHAND_TEST_A"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := cfg.NamedSecrets.Value("A"); got != "hunter2" || cfg.Media.ICEServers[0].Credential != "hunter2" {
		t.Errorf("secret %q, credential %q", got, cfg.Media.ICEServers[0].Credential)
	}
	if v, set := os.LookupEnv("DESKHAND_TEST_A"); set {
		t.Errorf("the variable is still set to %q", v)
	}
}

// TestSecretFlag wants a secret of the environment typed by its name, and its variable in no
// program that the server starts.
func TestSecretFlag(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	const value = "value-of-the-pin"
	typed := filepath.Join(t.TempDir(), "typed")
	s := serve(t, append(environ(t), "BANK_PIN="+value), "--desktop", "--log-level", "debug", "--secret", "PIN=env:BANK_PIN")
	s.ask(t, "/v1/desktop/launch", `{"app":"xterm","args":["-e","sh","-c","cat >`+typed+`"],"wait":true}`, nil)
	s.ask(t, "/v1/desktop/keyboard/type", `{"secret":"PIN"}`, nil)
	s.ask(t, "/v1/desktop/keyboard/press", `{"key":"Return"}`, nil)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		if text, err := os.ReadFile(typed); err == nil && string(text) == value+"\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the secret was not typed within 20 s")
		}
	}
	for _, p := range descendants(t, s.pid) {
		if strings.Contains(procFile(p.pid, "environ")+procFile(p.pid, "cmdline"), value) {
			t.Errorf("%s has the secret", p.name)
		}
	}
	if strings.Contains(procFile(s.pid, "environ"), value) {
		t.Error("/proc/PID/environ of the server has the secret")
	}
	s.signal(t, 15)
	if strings.Contains(s.stderr.String()+s.stdout.String(), value) {
		t.Errorf("the server writes it: %s %s", &s.stdout, &s.stderr)
	}
}
