package httpapi

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/deskhand/deskhand/agents/folders"
)

// openFolders opens what keeps the configuration of folders. It shares the
// directory of the agents' host, and makes it when something is written.
func openFolders(cfg Config, at *places) (*folders.Store, error) {
	trust := slices.Concat(cfg.TrustFolders, cfg.AgentHost.TrustFolders)
	for i, dir := range trust {
		trust[i] = expandHome(dir)
	}
	s, err := folders.Open(folders.Config{Locate: at.agentDir, Trust: trust, RunAs: cfg.AgentHost.RunAs, Remedy: howToApprove})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return s, nil
}

// agentDir is the directory of the agents' host; it is made ours for writing.
func (p *places) agentDir(write bool) (string, error) {
	if !write {
		return agentDir(p.where().dir), nil
	}
	dir, err := p.claim()
	return agentDir(dir), err
}

// howToApprove ends what a session says about an entry that does not count.
func howToApprove(dir string, kind folders.Kind, name, hash string) string {
	directory := url.Values{"directory": {dir}}.Encode()
	query := url.Values{"directory": {dir}, "name": {name}, "kind": {string(kind)}, "hash": {hash}}.Encode()
	return fmt.Sprintf("read it with GET /v1/config?%s and approve it with POST /v1/config/approve?%s, "+
		"or start the server with --trust-folders %s", directory, query, dir)
}
