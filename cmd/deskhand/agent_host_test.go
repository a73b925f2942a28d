package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi"
)

func sessionConfig(t *testing.T, args ...string) (httpapi.Config, error) {
	t.Helper()
	var f sessionFlags
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	var cfg httpapi.Config
	f.register(flags, &cfg)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := f.apply(&cfg)
	return cfg, err
}

func TestSessionFlags(t *testing.T) {
	t.Setenv("DESKHAND_DATABASE", "from.db")
	t.Setenv("SANDBOX_AGENT_ACP_REQUEST_TIMEOUT_MS", "2500")
	cfg, err := sessionConfig(t, "--database-sync=normal", "--agent-user=daemon", "--agent-permissions=allow",
		"--agent-permission-timeout=3s", "--agent-idle-timeout=1h", "--agent-desktop=main",
		"--database-max-events=7", "--database-max-bytes=8", "--database-max-age=9h")
	if err != nil {
		t.Fatal(err)
	}
	h := cfg.AgentHost
	if cfg.EventLog.DSN != "from.db" || cfg.EventLog.Synchronous != eventlog.Normal || h.RunAs != "daemon" || h.Desktop != "main" ||
		h.Permissions != (agents.Policy{Mode: agents.Allow, Timeout: 3 * time.Second}) || h.IdleTimeout != time.Hour ||
		h.RequestTimeout != 2500*time.Millisecond || cfg.EventLog.Retention != (eventlog.Retention{Events: 7, Bytes: 8, Age: 9 * time.Hour}) {
		t.Errorf("config = %+v, %+v", cfg.EventLog, h)
	}
}

func TestIdleTimeoutFlag(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]time.Duration{"": 30 * time.Minute, "--agent-idle-timeout=0": -1, "--agent-idle-timeout=2h": 2 * time.Hour} {
		cfg, err := sessionConfig(t, strings.Fields(arg)...)
		if err != nil || cfg.AgentHost.IdleTimeout != want {
			t.Errorf("%q: %v, %v, want %v", arg, cfg.AgentHost.IdleTimeout, err, want)
		}
	}
}

func TestWrongSessionFlags(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--database-sync=x", "--agent-permissions=x", "--agent-permission-timeout=-1s", "--agent-idle-timeout=-1s",
		"--database-max-events=-1", "--database-max-bytes=-1", "--database-max-age=-1s",
	} {
		name, _, _ := strings.Cut(arg, "=")
		if _, err := sessionConfig(t, arg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
