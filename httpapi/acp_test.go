package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/registry"
)

// What acpAgent sends for the method "strangers": how many ids of sessions, and their length.
const longIDs, longID = 48, 1 << 20

// acpAgent speaks what a test needs: it repeats params as the result.
func acpAgent(ctx context.Context, in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		switch m.Method {
		case "":
			say(`{"method":"got/answer","params":%s}`, lines.Bytes())
		case "ask":
			say(`{"id":7,"method":"fs/read_text_file","params":{}}`)
			say(`{"id":%s,"result":{}}`, m.ID)
		case "exit":
			return errors.New("last words")
		case "fail":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, m.ID)
		case "burst":
			for i := range 5000 {
				say(`{"method":"part","params":%d}`, i)
			}
			say(`{"id":%s,"result":{}}`, m.ID)
		case "turn":
			for i := range 5 {
				say(`{"method":"part","params":%d}`, i)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":"turn"}`, m.ID)
		case "large":
			say(`{"method":"part","params":"%s"}`, strings.Repeat("x", 1<<20))
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case "strangers": // sessions that only the agent knows
			for i := range longIDs {
				say(`{"method":"part","params":{"sessionId":"%d%s"}}`, i, strings.Repeat("x", longID))
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case "hang":
		case "slow":
			wg.Go(func() {
				t := time.NewTimer(300 * time.Millisecond)
				defer t.Stop()
				select {
				case <-t.C:
					say(`{"jsonrpc":"2.0","id":%s,"result":"late"}`, m.ID)
				case <-ctx.Done():
				}
			})
		case "notify":
			say(`{"method":"notified","params":%s}`, m.Params)
		default:
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, m.Params)
		}
	}
	return lines.Err()
}

func acpLaunch(_ context.Context, agent string) (agents.Launch, error) {
	switch agent {
	case "mock", "pi":
		return agents.Launch{Run: acpAgent}, nil
	case "broken":
		return agents.Launch{Path: "/nonexistent"}, nil
	case "absent":
		return agents.Launch{}, &registry.NotInstalledError{Agent: agent, Reason: "test", Remedy: "none"}
	}
	return agents.Launch{}, registry.ErrUnknownAgent
}

func serveACP(t *testing.T, cfg Config) *testServer {
	t.Helper()
	cfg.AgentHost.Launch = acpLaunch
	return serve(t, cfg)
}

func (s *testServer) send(t *testing.T, path, message string) answer {
	t.Helper()
	return s.do(t, call{method: http.MethodPost, path: path, body: message, kind: "application/json"})
}

const acpEcho = `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"b":1e400,"a":[ 1 ]}}`

// TestACPContract goes through the table of what sandbox-agent does.
func TestACPContract(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	p := s.send(t, "/v1/acp/a1", acpEcho).problem(t, 400, "invalid_request")
	if p["detail"] != "invalid request: missing required 'agent' query parameter for first POST to /v1/acp/a1" {
		t.Errorf("problem = %v", p)
	}
	if p := s.send(t, "/v1/acp/a1?agent=nope", acpEcho).problem(t, 400, "unsupported_agent"); p["agent"] != "nope" {
		t.Errorf("problem = %v", p)
	}
	s.send(t, "/v1/acp/a1?agent=absent", acpEcho).problem(t, 404, "agent_not_installed")
	s.send(t, "/v1/acp/a1?agent=broken", acpEcho).problem(t, 502, "stream_error")
	a := s.send(t, "/v1/acp/a1?agent=mock", acpEcho).want(t, 200)
	if got := string(a.body); got != `{"jsonrpc":"2.0","id":1,"result":{"b":1e400,"a":[ 1 ]}}` || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer = %s %v", got, a.Header)
	}
	s.send(t, "/v1/acp/a1?agent=mock", acpEcho).want(t, 200)
	s.send(t, "/v1/acp/a1", acpEcho).want(t, 200)
	p = s.send(t, "/v1/acp/a1?agent=pi", acpEcho).problem(t, 409, "conflict")
	if p["detail"] != "conflict: server 'a1' already exists for agent 'mock'; requested 'pi'" {
		t.Errorf("problem = %v", p)
	}
	for _, id := range []string{"null", `"x"`, `{"a":1}`} {
		if got := string(s.send(t, "/v1/acp/a1", `{"id":`+id+`,"method":"echo","params":2}`).want(t, 200).body); got != `{"jsonrpc":"2.0","id":`+id+`,"result":2}` {
			t.Errorf("answer = %s", got)
		}
	}
	fail := s.send(t, "/v1/acp/a1", `{"id":1,"method":"fail"}`).want(t, 200)
	if !strings.Contains(string(fail.body), `"code":-32000`) {
		t.Errorf("answer = %s", fail.body)
	}
	for path, message := range map[string]string{
		"/v1/acp/a1": `{"method":"notify","params":1}`, "/v1/acp/a1?x=1": `{"id":99,"result":{}}`, "/v1/acp/first?agent=mock": `{"method":"notify","params":1}`,
	} {
		a := s.send(t, path, message).want(t, 202)
		if len(a.body) > 0 || a.Header.Get("Content-Type") != "" {
			t.Errorf("accepted with %q, %v", a.body, a.Header)
		}
	}
	s.refusals(t)
	list := s.get(t, "/v1/acp").want(t, 200)
	var v struct {
		Servers []struct {
			ServerID, Agent string
			CreatedAtMs     int64
		}
	}
	if err := json.Unmarshal(list.body, &v); err != nil || len(v.Servers) != 2 || v.Servers[0].ServerID != "a1" ||
		v.Servers[1].ServerID != "first" || v.Servers[0].Agent != "mock" || v.Servers[0].CreatedAtMs == 0 {
		t.Errorf("list = %s", list.body)
	}
	s.remove(t)
}

// refusals are requests that are wrong by themselves.
func (s *testServer) refusals(t *testing.T) {
	t.Helper()
	for _, body := range []string{"[]", `"text"`, "1", "null"} {
		p := s.send(t, "/v1/acp/a1", body).problem(t, 400, "invalid_request")
		if p["detail"] != "invalid request: request body must be a JSON-RPC object" {
			t.Errorf("%s: %v", body, p)
		}
	}
	for _, body := range []string{"", "{", "x"} {
		p := s.send(t, "/v1/acp/a1", body).problem(t, 400, "invalid_request")
		if text, _ := p["detail"].(string); !strings.HasPrefix(text, "invalid request: invalid JSON body: ") {
			t.Errorf("%q: %v", body, p)
		}
	}
	s.do(t, call{path: "/v1/acp/a1", body: acpEcho, kind: "text/plain"}).problem(t, 415, "unsupported_media_type")
	s.do(t, call{path: "/v1/acp/a1", body: acpEcho, kind: "application/json; charset=utf-8"}).want(t, 200)
	s.do(t, call{path: "/v1/acp/a1", body: acpEcho, header: map[string]string{"Accept": "text/html"}}).problem(t, 406, "not_acceptable")
	s.do(t, call{path: "/v1/acp/a1", body: acpEcho, header: map[string]string{"Accept": "text/html, */*;q=0.1"}}).want(t, 200)
	s.do(t, call{path: "/v1/acp/a1", header: map[string]string{"Accept": "application/json"}}).problem(t, 406, "not_acceptable")
	for _, id := range []string{"abc", "-1", "1.5"} {
		p := s.do(t, call{path: "/v1/acp/none", header: map[string]string{"Last-Event-ID": id}}).problem(t, 400, "invalid_request")
		if p["detail"] != "invalid request: Last-Event-ID must be a positive integer" {
			t.Errorf("%s: %v", id, p)
		}
	}
	if p := s.get(t, "/v1/acp/none").problem(t, 404, "session_not_found"); p["sessionId"] != "none" {
		t.Errorf("problem = %v", p)
	}
	s.do(t, call{path: "/v1/acp/a1", body: acpEcho, anon: true}).problem(t, 401, "token_invalid")
}

func (s *testServer) remove(t *testing.T) {
	t.Helper()
	for range 2 {
		s.do(t, call{method: http.MethodDelete, path: "/v1/acp/a1"}).want(t, 204)
	}
	s.do(t, call{method: http.MethodDelete, path: "/v1/acp/unknown"}).want(t, 204)
	s.get(t, "/v1/acp/a1").problem(t, 404, "session_not_found")
	s.send(t, "/v1/acp/a1", acpEcho).problem(t, 400, "invalid_request")
}

func TestACPServerIDs(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	s.send(t, "/v1/acp/a%2Fb%20c?agent=mock", acpEcho).want(t, 200)
	if list := s.get(t, "/v1/acp"); !strings.Contains(string(list.body), `"serverId":"a/b c"`) {
		t.Errorf("list = %s", list.body)
	}
	s.send(t, "/v1/acp/"+strings.Repeat("x", 600)+"?agent=mock", acpEcho).problem(t, 400, "invalid_request")
}

// acpEvents are an event stream.
type acpEvents struct {
	t      *testing.T
	resp   *http.Response
	r      *bufio.Reader
	cancel context.CancelFunc
}

type acpEvent struct{ event, id, data string }

func (s *testServer) acpEvents(t *testing.T, path string, header map[string]string) *acpEvents {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	for name, value := range header {
		req.Header.Set(name, value)
	}
	events := &acpEvents{t: t, cancel: cancel}
	defer events.bound()()
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("GET %s = %d %s", path, resp.StatusCode, body)
	}
	events.resp, events.r = resp, bufio.NewReader(resp.Body)
	return events
}

// bound ends the stream if what is waited for does not come before the function
// that it returns is called.
func (s *acpEvents) bound() (stop func() bool) {
	return time.AfterFunc(time.Minute, s.cancel).Stop
}

// next returns the next event, skipping comments. Its time limit is for one event.
func (s *acpEvents) next() (e acpEvent) {
	s.t.Helper()
	defer s.bound()()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("event stream: %v", err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case name == "event":
			e.event = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data = value
		case line == "\n" && e.id != "":
			return e
		}
	}
}

func TestACPEvents(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	for i := range 3 {
		s.send(t, "/v1/acp/a?agent=mock", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"echo","params":{}}`, i)).want(t, 200)
	}
	all := s.acpEvents(t, "/v1/acp/a", map[string]string{"Accept": "*/*"})
	if got := all.resp.Header; got.Get("Content-Type") != "text/event-stream" || got.Get("Cache-Control") != "no-cache, no-transform" || got.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers = %v", got)
	}
	for i := range 3 {
		want := acpEvent{"message", fmt.Sprint(i + 1), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i)}
		if got := all.next(); got != want {
			t.Errorf("event = %+v, want %+v", got, want)
		}
	}
	for _, c := range []struct{ path, last, first string }{
		{"/v1/acp/a", "", "1"},
		{"/v1/acp/a", "0", "1"},
		{"/v1/acp/a", "2", "3"},
		{"/v1/acp/a", "77", "1"}, // of another life: all of this one
		{"/v1/acp/a?replay=2", "", "3"},
		{"/v1/acp/a?replay=all", "", "1"},
		{"/v1/acp/a?replay=none", "1", "2"}, // as a browser comes back
		{"/v1/acp/a?from=2", "", "2"},
	} {
		header := map[string]string{}
		if c.last != "" {
			header["Last-Event-ID"] = c.last
		}
		if got := s.acpEvents(t, c.path, header).next().id; got != c.first {
			t.Errorf("%s after %q begins with %s, want %s", c.path, c.last, got, c.first)
		}
	}
	live := s.acpEvents(t, "/v1/acp/a?replay=none&access_token="+s.Token(), nil)
	s.send(t, "/v1/acp/a", `{"id":"q","method":"ask"}`).want(t, 200)
	s.send(t, "/v1/acp/a", `{"id":7,"result":{"content":"x"}}`).want(t, 202)
	for _, want := range []string{`{"id":7,"method":"fs/read_text_file","params":{}}`, `{"id":"q","result":{}}`, `{"method":"got/answer","params":{"id":7,"result":{"content":"x"}}}`} {
		if got := live.next().data; got != want {
			t.Errorf("event = %s, want %s", got, want)
		}
	}
}

func TestACPExit(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	p := s.send(t, "/v1/acp/a?agent=mock", `{"id":1,"method":"exit"}`).problem(t, 500, "agent_process_exited")
	details, _ := p["details"].(map[string]any)
	if p["agent"] != "mock" || details["exitCode"] != float64(1) || details["stderr"] != "last words" {
		t.Errorf("problem = %v", p)
	}
	if got := s.acpEvents(t, "/v1/acp/a", nil).next().data; got != `{"jsonrpc":"2.0","method":"_adapter/agent_exited","params":{"success":false,"code":1,"stderr":"last words"}}` {
		t.Errorf("event = %s", got)
	}
	s.send(t, "/v1/acp/a", acpEcho).problem(t, 500, "agent_process_exited")
	if list := s.get(t, "/v1/acp"); !strings.Contains(string(list.body), `"serverId":"a"`) {
		t.Errorf("list = %s", list.body)
	}
	if info := s.get(t, "/v1/agents/mock"); !strings.Contains(string(info.body), `"serverStatus":{"status":"stopped"}`) {
		t.Errorf("agent = %s", info.body)
	}
	s.send(t, "/v1/acp/a?agent=mock", acpEcho).want(t, 200)
	if info := s.get(t, "/v1/agents/mock"); !strings.Contains(string(info.body), `"serverStatus":{"status":"running","uptimeMs"`) {
		t.Errorf("agent = %s", info.body)
	}
}

// A response whose answer takes long begins before it.
func TestACPLongAnswer(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	s.rest.Early, s.rest.Beat = 20*time.Millisecond, 30*time.Millisecond
	a := s.send(t, "/v1/acp/a?agent=mock", `{"id":1,"method":"slow"}`).want(t, 200)
	if !strings.HasPrefix(string(a.body), "\n\n") || strings.TrimSpace(string(a.body)) != `{"jsonrpc":"2.0","id":1,"result":"late"}` {
		t.Errorf("answer = %q", a.body)
	}
	if a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("headers = %v", a.Header)
	}
	done := make(chan answer, 1)
	go func() {
		done <- s.try(t.Context(), call{path: "/v1/acp/b?agent=mock", body: `{"id":"x","method":"hang"}`})
	}()
	for deadline := time.Now().Add(30 * time.Second); ; {
		if a := s.get(t, "/v1/acp"); strings.Contains(string(a.body), `"serverId":"b"`) || time.Now().After(deadline) {
			break
		}
	}
	s.send(t, "/v1/acp/b", `{"method":"exit"}`).want(t, 202)
	a = <-done
	if a.err != nil || a.StatusCode == 200 && !strings.Contains(string(a.body), `"id":"x","error":{"code":-32603,"message":"agent process exited: mock (exit code 1): last words"`) {
		t.Errorf("answer = %s, %v", a.body, a.err)
	}
}

// After a restart a client goes on where it was: without naming the agent, and
// with the last event that it saw.
func TestACPRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := New(Config{StateDir: dir, AgentHost: agents.Config{Launch: acpLaunch}})
	if err != nil {
		t.Fatal(err)
	}
	host, err := first.agents.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Post(t.Context(), "a", agents.PostOptions{Agent: "mock"}, []byte(acpEcho)); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s := serveACP(t, Config{StateDir: dir})
	events := s.acpEvents(t, "/v1/acp/a", map[string]string{"Last-Event-ID": "1"})
	if got := events.next(); got.id != "2" || !strings.Contains(got.data, "_adapter/agent_exited") {
		t.Errorf("event = %+v", got)
	}
	s.send(t, "/v1/acp/a", acpEcho).want(t, 200)
	if got := events.next(); got.id != "3" || !strings.Contains(got.data, `"id":1`) {
		t.Errorf("event = %+v", got)
	}
}

// A slow reader gets every event, and other clients do not wait for it.
func TestACPStalledReader(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	s.send(t, "/v1/acp/a?agent=mock", acpEcho).want(t, 200)
	stalled := s.acpEvents(t, "/v1/acp/a?replay=none", nil)
	s.send(t, "/v1/acp/a", `{"id":1,"method":"burst"}`).want(t, 200)
	for i := range 5000 {
		if got := stalled.next(); got.id != fmt.Sprint(i+2) {
			t.Fatalf("event %d has id %s", i, got.id)
		}
	}
}

func TestOpenAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serveACP(t, Config{StateDir: dir})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(agentDir(dir) + "/events.db"); err != nil {
		t.Error(err)
	}
}
