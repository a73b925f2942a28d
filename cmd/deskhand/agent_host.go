package main

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi"
)

// sessionFlags configure how agents run, and where their sessions are kept.
type sessionFlags struct {
	database    string
	sync        string
	user        string
	permissions string
	patience    time.Duration
	idle        time.Duration
	desktop     string
	trust       []string
	retention   eventlog.Retention
}

func (f *sessionFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.database, "database", "", "`file` for agents' sessions, or postgres://..., which servers can share (default: a file in the state directory)")
	flags.StringVar(&f.sync, "database-sync", "full", "`full|normal`: full survives a power failure, normal is faster")
	flags.IntVar(&f.retention.Events, "database-max-events", 0, "maximum `number` of events of each agent server and session, of which the newest are kept; 0 keeps all")
	flags.Int64Var(&f.retention.Bytes, "database-max-bytes", 0, "maximum `bytes` of events of each agent server and session, of which the newest are kept; 0 keeps all")
	flags.DurationVar(&f.retention.Age, "database-max-age", 0, "delete events older than a `time` such as 720h; 0 keeps all")
	flags.StringVar(&f.user, "agent-user", "", "`user` that agents run as (default: this user)")
	flags.StringArrayVar(&f.trust, "trust-folders", nil, "`path` of folders whose MCP servers and skills need no approval; / is all; may be repeated (default: none)")
	flags.StringVar(&f.permissions, "agent-permissions", "ask", "answer to agents' permission requests, unless their session sets one: `ask|allow|reject`")
	flags.DurationVar(&f.patience, "agent-permission-timeout", 0, "cancel permission requests without an answer after a `time`; 0 is never")
	flags.DurationVar(&f.idle, "agent-idle-timeout", agents.DefaultIdleTimeout, "end agents after a `time` without work, until they are needed again; 0 is never")
	flags.StringVar(&f.desktop, "agent-desktop", "", "`id` of the desktop that all agents get as tools (default: none)")
}

// apply applies the flags, DESKHAND_DATABASE and
// SANDBOX_AGENT_ACP_REQUEST_TIMEOUT_MS to the server's configuration.
func (f *sessionFlags) apply(cfg *httpapi.Config) error {
	if f.database == "" {
		f.database = os.Getenv("DESKHAND_DATABASE")
	}
	cfg.EventLog.DSN = f.database
	switch f.sync {
	case "full":
	case "normal":
		cfg.EventLog.Synchronous = eventlog.Normal
	default:
		return usagef("--database-sync must be full or normal, not %q", f.sync)
	}
	mode := agents.Mode(f.permissions)
	if mode != agents.Ask && mode != agents.Allow && mode != agents.Reject {
		return usagef("--agent-permissions must be ask, allow or reject, not %q", f.permissions)
	}
	for name, negative := range map[string]bool{
		"events": f.retention.Events < 0, "bytes": f.retention.Bytes < 0, "age": f.retention.Age < 0,
	} {
		if negative {
			return usagef("--database-max-%s must not be negative", name)
		}
	}
	cfg.EventLog.Retention = f.retention
	if f.patience < 0 || f.idle < 0 {
		return usagef("--agent-permission-timeout and --agent-idle-timeout must not be negative")
	}
	cfg.AgentHost.Permissions = agents.Policy{Mode: mode, Timeout: f.patience}
	if f.idle == 0 {
		f.idle = -1
	}
	cfg.AgentHost.RunAs, cfg.AgentHost.IdleTimeout, cfg.AgentHost.Desktop = f.user, f.idle, f.desktop
	for _, dir := range f.trust {
		if dir == "" {
			return usagef("--trust-folders must not be empty; it is the path of a folder, or / for all")
		}
		at, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		cfg.TrustFolders = append(cfg.TrustFolders, at)
	}
	if v := variable("ACP_REQUEST_TIMEOUT_MS"); v != "" {
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil || ms == 0 {
			return usagef("the ACP_REQUEST_TIMEOUT_MS of the environment must be a number of milliseconds, not %q", v)
		}
		cfg.AgentHost.RequestTimeout = time.Duration(ms) * time.Millisecond
	}
	return nil
}
