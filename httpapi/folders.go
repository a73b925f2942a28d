package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
)

// openFolders opens the store of folders' configuration. It shares the directory of
// the agents' host, and makes that directory with the first write.
func openFolders(cfg Config, state *fleet.StateDir) (*folders.Store, error) {
	trust := slices.Concat(cfg.TrustFolders, cfg.AgentHost.TrustFolders)
	for i, dir := range trust {
		trust[i] = userhome.Expand(dir)
	}
	s, err := folders.Open(folders.Config{Locate: locateAgents(state), Trust: trust, RunAs: cfg.AgentHost.RunAs, Remedy: howToApprove})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return s, nil
}

// locateAgents returns a function that returns the directory of the agents' host. For
// writing, it claims the state directory.
func locateAgents(state *fleet.StateDir) func(write bool) (string, error) {
	return func(write bool) (string, error) {
		if !write {
			return agentDir(state.Path()), nil
		}
		dir, err := state.Claim()
		return agentDir(dir), err
	}
}

// howToApprove returns the end of a session's message about an entry that does not count.
func howToApprove(dir string, kind folders.Kind, name, hash string) string {
	param := map[folders.Kind]string{folders.MCP: "mcpName", folders.Skills: "skillName"}[kind]
	directory := url.Values{"directory": {dir}}.Encode()
	query := url.Values{param: {name}, "hash": {hash}}.Encode()
	return fmt.Sprintf("read it with GET /v1/config?%s and approve it with POST /v1/config/%s/approve?%s&%s, "+
		"or start the server with --trust-folders %s", directory, kind, directory, query, dir)
}

// foundEntry is an entry of a folder and whether it counts.
type foundEntry struct {
	Kind     folders.Kind    `json:"kind" enum:"mcp,skills"`
	Name     string          `json:"name"`
	Approved bool            `json:"approved" doc:"false: sessions leave it out until it is approved"`
	Hash     string          `json:"hash" doc:"Of the content: what is approved"`
	Content  json.RawMessage `json:"content" doc:"As it stands in the file"`
}

type foundInput struct {
	Directory string `query:"directory" required:"true" doc:"Whose configuration it is. Relative ones are below the server's working directory, ~ is its home directory"`
}

type foundOutput struct {
	Body struct {
		Directory string       `json:"directory"`
		Entries   []foundEntry `json:"entries" nullable:"false"`
	}
}

func (s *Server) registerFolders() {
	rest.Add(s.routes, rest.Route{
		ID: "listConfig", Method: http.MethodGet, Path: "/v1/config", Tag: "Configuration", Summary: "List the configuration of a folder",
		About:  "All its MCP servers and skills, and which of them count. Those that were found in the folder count after their approval.",
		Errors: []int{http.StatusBadRequest, http.StatusForbidden},
	}, s.listConfig)
}

func (s *Server) listConfig(ctx context.Context, in *foundInput) (*foundOutput, error) {
	dir, err := folderOf(in.Directory)
	if err != nil {
		return nil, err
	}
	out := &foundOutput{}
	out.Body.Directory, out.Body.Entries = dir, []foundEntry{}
	for _, kind := range []folders.Kind{folders.MCP, folders.Skills} {
		entries, err := s.folders.Entries(ctx, dir, kind)
		if err != nil {
			return nil, configProblem(err)
		}
		for name, e := range entries {
			out.Body.Entries = append(out.Body.Entries, foundEntry{kind, name, e.Approved, e.Hash, e.Content})
		}
	}
	slices.SortFunc(out.Body.Entries, func(a, b foundEntry) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// The query parameters of an approval.
type (
	mcpApproval struct {
		MCPQuery
		Hash string `query:"hash" required:"true" doc:"Of the content that is approved, as GET /v1/config and the ETag of the entry tell it"`
	}
	skillsApproval struct {
		SkillsQuery
		Hash string `query:"hash" required:"true" doc:"Of the content that is approved, as GET /v1/config and the ETag of the entry tell it"`
	}
	approvalQuery interface {
		entryQuery
		approved() string
	}
)

func (q *mcpApproval) approved() string    { return q.Hash }
func (q *skillsApproval) approved() string { return q.Hash }

// registerApproval adds the route that approves entries of one kind.
func registerApproval[A any, PA interface {
	*A
	approvalQuery
}](s *Server, c configured,
) {
	rest.Add(s.routes, rest.Route{
		ID: "approve" + c.id, Method: http.MethodPost, Path: "/v1/config/" + string(c.kind) + "/approve", Tag: "Configuration",
		Summary: "Approve the configuration of one " + c.noun,
		About: "It counts in sessions of the folder from then on, until its content changes. The hash says which content is approved; " +
			"if the entry has another one by now, nothing is. Entries that were written with PUT need no approval.",
		Status: http.StatusNoContent, Errors: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, q *A) (*struct{}, error) { return nil, c.approve(ctx, PA(q)) })
}

func (c configured) approve(ctx context.Context, q approvalQuery) error {
	dir, name, err := c.locate(q)
	if err != nil {
		return err
	}
	err = c.store.Approve(ctx, dir, c.kind, name, q.approved())
	var changed *folders.ChangedError
	switch {
	case errors.Is(err, folders.ErrNotFound):
		return rest.Missing(string(c.kind), name)
	case errors.As(err, &changed):
		return rest.ConflictOf(changed.Error())
	}
	return configProblem(err)
}
