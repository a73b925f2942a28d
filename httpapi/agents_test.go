package httpapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/agents/registry"
)

// agentsConfig knows no agent of this machine. The mock agent is a program that
// is there.
func agentsConfig(t *testing.T, custom ...registry.Custom) Config {
	t.Helper()
	env := []string{"HOME=" + t.TempDir(), "PATH=" + t.TempDir()}
	return Config{Agents: registry.Config{
		Dir: filepath.Join(t.TempDir(), "agents"), Env: env, Custom: custom, Mock: []string{"/bin/sh", "-c", "exit"},
	}}
}

// acpScript is an agent that can be asked.
func acpScript(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent")
	text := `#!/bin/sh
while read -r line; do
case "$line" in
*'"initialize"'*) echo '{"id":0,"result":{"agentInfo":{"version":"1.2.3"},"agentCapabilities":{"promptCapabilities":{"image":true}}}}' ;;
*'"session/new"'*) echo '{"id":1,"result":{"modes":{"currentModeId":"b","availableModes":[{"id":"a","name":"A"},{"id":"b","name":"B","description":"better"}]}}}' ;;
esac
done
`
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAgents compares each list with sandbox-agent's, member by member.
func TestAgents(t *testing.T) {
	t.Parallel()
	s := serve(t, agentsConfig(t))
	list := s.get(t, "/v1/agents").want(t, 200).json(t)["agents"].([]any)
	var ids, members []string
	capabilities := map[string][]string{}
	for _, e := range list {
		a := e.(map[string]any)
		id := a["id"].(string)
		ids = append(ids, id)
		for name := range a {
			members = append(members, name)
		}
		if got := len(a["capabilities"].(map[string]any)); got != 18 {
			t.Errorf("%s has %d capabilities", id, got)
		}
		for name, can := range a["capabilities"].(map[string]any) {
			if can == true {
				capabilities[name] = append(capabilities[name], id)
			}
		}
		if want := id == "mock"; a["installed"] != want {
			t.Errorf("%s: installed is %v", id, a["installed"])
		}
		if want := slices.Contains([]string{"pi", "cursor", "mock"}, id); a["credentialsAvailable"] != want {
			t.Errorf("%s: credentialsAvailable is %v", id, a["credentialsAvailable"])
		}
	}
	if want := []string{"claude", "codex", "opencode", "amp", "pi", "cursor", "gemini", "mock"}; !slices.Equal(ids, want) {
		t.Errorf("agents: %q", ids)
	}
	slices.Sort(members)
	if want := []string{"capabilities", "credentialsAvailable", "id", "installed", "name", "note"}; !slices.Equal(slices.Compact(members), want) {
		t.Errorf("members: %q", slices.Compact(members))
	}
	all := []string{"claude", "codex", "opencode", "amp", "pi", "cursor", "gemini", "mock"}
	want := map[string][]string{
		"planMode": {"codex", "cursor", "mock"}, "permissions": {"claude", "codex", "cursor", "gemini", "mock"}, "questions": {"claude", "mock"},
		"toolCalls": all, "toolResults": all, "textMessages": all,
		"images": {"codex", "opencode", "pi", "cursor", "gemini", "mock"}, "fileAttachments": {"codex", "opencode", "mock"},
		"sessionLifecycle": {"codex", "opencode", "pi", "cursor", "gemini", "mock"}, "errorEvents": all[1:],
		"reasoning": {"codex", "mock"}, "status": {"codex", "mock"}, "commandExecution": {"codex", "mock"}, "fileChanges": {"codex", "mock"},
		"mcpTools": {"claude", "codex", "opencode", "amp", "gemini", "mock"}, "streamingDeltas": {"claude", "codex", "opencode", "pi", "cursor", "gemini", "mock"},
		"itemStarted": {"codex", "opencode", "pi", "cursor", "gemini", "mock"},
	}
	if diff := cmp.Diff(want, capabilities); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, agentsConfig(t))
	a := s.get(t, "/v1/agents/mock?config=true").want(t, 200)
	const beginning = `{"id":"mock","installed":true,"credentialsAvailable":true,"path":"/bin/sh","capabilities":{"planMode":true,`
	const options = `"configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"mock",` +
		`"options":[{"value":"mock","name":"Mock"},{"value":"mock-fast","name":"Mock Fast"}]},`
	if got := string(a.body); !strings.HasPrefix(got, beginning) || !strings.Contains(got, options) {
		t.Errorf("mock: %s", got)
	}
	for id, want := range map[string]string{
		"claude": "model default sonnet opus haiku, mode default acceptEdits plan dontAsk bypassPermissions",
		"codex": "model gpt-5.3-codex gpt-5.3-codex-spark gpt-5.2-codex gpt-5.1-codex-max gpt-5.2 gpt-5.1-codex-mini, " +
			"mode read-only auto full-access, thought_level low medium high xhigh",
		"opencode": "mode build plan", "pi": "model default", "cursor": "model auto composer-1.5", "gemini": "",
		"amp":  "model amp-default, mode default bypass",
		"mock": "model mock mock-fast, mode normal plan, thought_level low medium high",
	} {
		var info struct {
			ConfigOptions []struct {
				Category string
				Choices  []struct{ Value string } `json:"options"`
			}
			ConfigError string
		}
		if err := json.Unmarshal(s.get(t, "/v1/agents/"+id+"?config=true").want(t, 200).body, &info); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range info.ConfigOptions {
			text := o.Category
			for _, c := range o.Choices {
				text += " " + c.Value
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != want || info.ConfigOptions == nil || info.ConfigError != "" {
			t.Errorf("%s: %q %s", id, got, info.ConfigError)
		}
	}
	modes := s.get(t, "/v1/agents/opencode/modes").want(t, 200)
	if got := strings.TrimSpace(string(modes.body)); got != `{"modes":[{"id":"build","name":"Build","description":""},{"id":"plan","name":"Plan","description":""}]}` {
		t.Errorf("modes: %s", got)
	}
	if got := strings.TrimSpace(string(s.get(t, "/v1/agents/gemini/modes").want(t, 200).body)); got != `{"modes":[]}` {
		t.Errorf("modes: %s", got)
	}
	for _, c := range []call{
		{path: "/v1/agents/nope"},
		{path: "/v1/agents/Claude"},
		{path: "/v1/agents/nope/modes"},
		{path: "/v1/agents/nope/install/events"},
		{path: "/v1/agents/nope/install", body: "{}"},
	} {
		p := s.do(t, c).problem(t, 400, "unsupported_agent")
		if p["agent"] != strings.Split(c.path, "/")[3] || p["detail"] != "unsupported agent: "+p["agent"].(string) {
			t.Errorf("%s: %v", c.path, p)
		}
	}
	s.get(t, "/v1/agents?config=maybe").problem(t, 400, "invalid_request")
}

// TestAskedAgent wants what an agent says to be what is told of it.
func TestAskedAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, agentsConfig(t,
		registry.Custom{ID: "mine", Command: []string{acpScript(t)}}, registry.Custom{ID: "broken", Command: []string{"/bin/false"}}))
	before := s.get(t, "/v1/agents/mine?config=true").want(t, 200).json(t)
	if len(before["configOptions"].([]any)) != 0 || before["version"] != nil {
		t.Errorf("before: %v", before)
	}
	asked := s.get(t, "/v1/agents/mine?config=true&no_cache=true").want(t, 200).json(t)
	if asked["version"] != "1.2.3" || asked["configError"] != nil || asked["capabilities"].(map[string]any)["images"] != true {
		t.Errorf("asked: %v", asked)
	}
	if got := strings.TrimSpace(string(s.get(t, "/v1/agents/mine/modes").body)); got != `{"modes":[{"id":"a","name":"A","description":""},{"id":"b","name":"B","description":"better"}]}` {
		t.Errorf("modes: %s", got)
	}
	broken := s.get(t, "/v1/agents/broken?config=true&no_cache=true").want(t, 200).json(t)
	if text, _ := broken["configError"].(string); !strings.Contains(text, "it ended: exit status 1") {
		t.Errorf("broken: %v", broken)
	}
	if os.Geteuid() != 0 {
		return
	}
	// It is asked as the user whom agents run as, who may not enter that folder.
	cfg := agentsConfig(t, registry.Custom{ID: "mine", Command: []string{acpScript(t)}})
	cfg.AgentHost.RunAs = "www-data"
	closed := serve(t, cfg).get(t, "/v1/agents/mine?config=true&no_cache=true").want(t, 200).json(t)
	if text, _ := closed["configError"].(string); !strings.Contains(text, `user "www-data" may not enter `) {
		t.Errorf("as another user: %v", closed)
	}
}

func TestInstallAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, agentsConfig(t))
	for body, want := range map[string]string{
		`{}`:                 `{"already_installed":true,"artifacts":[]}`,
		`{"reinstall":true}`: `{"already_installed":false,"artifacts":[{"kind":"agent_process","path":"/bin/sh","source":"builtin"}]}`,
	} {
		if got := strings.TrimSpace(string(s.post(t, "/v1/agents/mock/install", body).want(t, 200).body)); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	events := s.follow(t.Context(), t, "/v1/agents/codex/install/events", nil)
	failed := s.post(t, "/v1/agents/codex/install", `{}`).problem(t, 500, "install_failed")
	details, _ := failed["details"].(map[string]any)
	if failed["agent"] != "codex" || details["stderr"] != "npm is not installed" || !strings.Contains(failed["detail"].(string), "install Node.js 20") {
		t.Errorf("without npm: %v", failed)
	}
	var last sse
	for e := range events {
		last = e
	}
	if last.event != "progress" || !strings.HasPrefix(last.data, `{"agent":"codex","stage":"failed"`) {
		t.Errorf("last event: %+v", last)
	}
	for body, status := range map[string]int{`{"agentVersion":"git+https://x"}`: 400, `{"reinstall":"yes"}`: 422, `[]`: 422} {
		s.post(t, "/v1/agents/codex/install", body).problem(t, status, "invalid_request")
	}
	s.do(t, call{path: "/v1/agents/codex/install", body: "x", kind: "text/plain"}).problem(t, 415, "unsupported_media_type")
}

func TestAgentsConfig(t *testing.T) {
	t.Parallel()
	cfg := agentsConfig(t, registry.Custom{ID: "UPPER", Command: []string{"x"}})
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "small letters") {
		t.Errorf("New: %v", err)
	}
}
