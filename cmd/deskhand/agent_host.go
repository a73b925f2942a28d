package main

import (
	"cmp"
	"net/url"
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
type sessionFlags struct{ sync string }

func (f *sessionFlags) register(flags *pflag.FlagSet, cfg *httpapi.Config) {
	log, host := &cfg.EventLog, &cfg.AgentHost
	flags.StringVar(&log.DSN, "database", "", "`file` for agents' sessions, or postgres://..., which servers can share (default: a file in the state directory)")
	flags.StringVar(&f.sync, "database-sync", "full", "`full|normal`: full survives a power failure, normal is faster")
	flags.IntVar(&log.Retention.Events, "database-max-events", 0, "maximum `number` of events of each agent server and session, of which the newest are kept; 0 keeps all")
	flags.Int64Var(&log.Retention.Bytes, "database-max-bytes", 0, "maximum `bytes` of events of each agent server and session, of which the newest are kept; 0 keeps all")
	flags.DurationVar(&log.Retention.Age, "database-max-age", 0, "delete events older than a `time` such as 720h; 0 keeps all")
	flags.StringVar(&host.Address, "advertise", "", "`URL` at which clients of other servers with the same --database reach this server, such as http://deskhand-0.deskhand:2468")
	flags.BoolVar(&cfg.ProxySessions, "proxy-sessions", false, "pass requests for agents that run in another server with the same --database on to its --advertise, instead of answering 409")
	flags.DurationVar(&host.GoneAfter, "gone-after", agents.DefaultGoneAfter, "take over the sessions of a server with the same --database that was gone for this `time`")
	flags.StringVar(&host.RunAs, "agent-user", "", "`user` that agents run as (default: this user)")
	flags.StringArrayVar(&cfg.TrustFolders, "trust-folders", nil, "`path` of folders whose MCP servers and skills need no approval; / is all; may be repeated (default: none)")
	flags.StringVar((*string)(&host.Permissions.Mode), "agent-permissions", "ask", "answer to agents' permission requests, unless their session sets one: `ask|allow|reject`")
	flags.DurationVar(&host.Permissions.Timeout, "agent-permission-timeout", 0, "cancel permission requests without an answer after a `time`; 0 is never")
	flags.DurationVar(&host.IdleTimeout, "agent-idle-timeout", agents.DefaultIdleTimeout, "end agents after a `time` without work, until they are needed again; 0 is never")
	flags.StringVar(&host.Desktop, "agent-desktop", "", "`id` of the desktop that all agents get as tools (default: none)")
}

// apply applies --database-sync, DESKHAND_DATABASE and
// SANDBOX_AGENT_ACP_REQUEST_TIMEOUT_MS to the server's configuration, and checks the
// other flags.
func (f *sessionFlags) apply(cfg *httpapi.Config) error {
	log, host := &cfg.EventLog, &cfg.AgentHost
	log.DSN = cmp.Or(log.DSN, os.Getenv("DESKHAND_DATABASE"))
	if f.sync == "normal" {
		log.Synchronous = eventlog.Normal
	}
	if err := cmp.Or(choose("database-sync", f.sync, "full", "normal"),
		choose("agent-permissions", string(host.Permissions.Mode), string(agents.Ask), string(agents.Allow), string(agents.Reject))); err != nil {
		return err
	}
	for name, negative := range map[string]bool{
		"events": log.Retention.Events < 0, "bytes": log.Retention.Bytes < 0, "age": log.Retention.Age < 0,
	} {
		if negative {
			return usagef("--database-max-%s must not be negative", name)
		}
	}
	if err := checkAdvertised(host.Address); err != nil {
		return err
	}
	if host.GoneAfter <= 0 {
		return usagef("--gone-after must be positive, not %v", host.GoneAfter)
	}
	if host.Permissions.Timeout < 0 || host.IdleTimeout < 0 {
		return usagef("--agent-permission-timeout and --agent-idle-timeout must not be negative")
	}
	if host.IdleTimeout == 0 {
		host.IdleTimeout = -1
	}
	for i, dir := range cfg.TrustFolders {
		if dir == "" {
			return usagef("--trust-folders must not be empty; it is the path of a folder, or / for all")
		}
		var err error
		if cfg.TrustFolders[i], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	if v := variable("ACP_REQUEST_TIMEOUT_MS"); v != "" {
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil || ms == 0 {
			return usagef("the ACP_REQUEST_TIMEOUT_MS of the environment must be a number of milliseconds, not %q", v)
		}
		host.RequestTimeout = time.Duration(ms) * time.Millisecond
	}
	return nil
}

// checkAdvertised returns an error if the value of --advertise is no URL of a server.
func checkAdvertised(address string) error {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return usagef("--advertise must be http:// or https:// and a host, without a path, such as http://deskhand-0.deskhand:2468, not %q", address)
	}
	return nil
}
