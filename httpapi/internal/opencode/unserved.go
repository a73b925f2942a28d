package opencode

import "net/http"

// unservedRoutes lists the routes that do nothing. They answer with an empty value that clients
// accept, or with a problem that says what is missing.
func unservedRoutes() []route {
	const (
		credentials = "agents find their credentials themselves; set their API keys in the server's environment, or sign in with the agent's own program"
		oauth       = "deskhand connects to no MCP server itself; sign in with the agent's own program"
		tools       = "agents do not list the tools that they offer to their models"
		worktrees   = "deskhand makes no worktrees; make one with git and give its path as the directory"
		workspaces  = "the server runs sessions on this machine only"
		later       = "deskhand serves the routes without /api, which the same clients have"
		sync        = "the event log is read through /v1/sessions, not replicated"
	)
	all := []route{
		// deskhand has none of these.
		constant("/lsp", []any{}),
		constant("/formatter", []any{}),
		constant("/experimental/resource", map[string]any{}),
		constant("/experimental/console", map[string]any{"consoleManagedProviders": []any{}, "switchableOrgCount": 0}),
		constant("/experimental/console/orgs", map[string]any{"orgs": []any{}}),
		constant("/experimental/capabilities", map[string]any{"backgroundSubagents": false}),
		constant("/experimental/workspace", []any{}),
		constant("/experimental/workspace/status", []any{}),
		constant("/experimental/workspace/adapter", []any{}),

		unsupported(http.MethodGet, "/find/symbol", "deskhand runs no language server"),
		unsupported(http.MethodGet, "/skill", "GET /v1/config lists the skills of a directory"),
		unsupported(http.MethodGet, "/tui/control/next", "terminal UIs are controlled by events"),
		unsupported(http.MethodPost, "/tui/control/response", "terminal UIs are controlled by events"),
		unsupported(http.MethodPost, "/pty/{ptyID}/connect-token", "send the token as Basic authentication or as the query parameter auth_token"),
		unsupported(http.MethodGet, "/vcs/diff", "run git diff as a process; GET /vcs/status lists the changed files"),
		unsupported(http.MethodGet, "/vcs/diff/raw", "run git diff as a process; GET /vcs/status lists the changed files"),
		unsupported(http.MethodPost, "/vcs/apply", "run git apply as a process"),
		unsupported(http.MethodPost, "/project/git/init", "run git init as a process"),
		unsupported(http.MethodPatch, "/project/{projectID}", "projects have no names, icons or commands"),
		unsupported(http.MethodGet, "/project/{projectID}/directories", worktrees),
		unsupported(http.MethodPost, "/global/upgrade", "run deskhand upgrade"),
		unsupported(http.MethodPost, "/global/dispose", "stop the server, or dispose of one directory with POST /instance/dispose"),
		unsupported(http.MethodPost, "/experimental/console/switch", "deskhand has no organizations"),
		unsupported(http.MethodPost, "/experimental/control-plane/move-session", workspaces),
		unsupported(http.MethodPost, "/experimental/session/{sessionID}/background", "sessions have no subagents of their own"),
		unsupported(http.MethodGet, "/experimental/session", "GET /session lists the sessions"),
		unsupported(http.MethodPost, "/experimental/project/{projectID}/copy/generate-name", worktrees),
		unsupported(http.MethodPost, "/experimental/project/{projectID}/copy/refresh", worktrees),
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		all = append(all, unsupported(method, "/api/*", later))
	}
	for path, why := range map[string]string{
		"/provider/{providerID}/oauth/authorize": credentials, "/provider/{providerID}/oauth/callback": credentials,
		"/mcp/{name}/auth": oauth, "/mcp/{name}/auth/authenticate": oauth, "/mcp/{name}/auth/callback": oauth,
		"/experimental/workspace": workspaces, "/experimental/workspace/sync-list": workspaces, "/experimental/workspace/warp": workspaces,
		"/experimental/worktree": worktrees, "/experimental/worktree/reset": worktrees, "/experimental/project/{projectID}/copy": worktrees,
		"/sync/start": sync, "/sync/replay": sync, "/sync/history": sync, "/sync/steal": sync,
	} {
		all = append(all, unsupported(http.MethodPost, path, why))
	}
	for path, why := range map[string]string{"/experimental/tool": tools, "/experimental/tool/ids": tools, "/experimental/worktree": worktrees} {
		all = append(all, unsupported(http.MethodGet, path, why))
	}
	for path, why := range map[string]string{
		"/auth/{providerID}": credentials, "/mcp/{name}/auth": oauth, "/experimental/workspace/{id}": workspaces,
		"/experimental/worktree": worktrees, "/experimental/project/{projectID}/copy": worktrees,
	} {
		all = append(all, unsupported(http.MethodDelete, path, why))
	}
	return append(all, unsupported(http.MethodPut, "/auth/{providerID}", credentials))
}
