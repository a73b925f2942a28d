package agenttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = 2 * time.Minute

// server is a deskhand server as a process, which can be killed and started
// again with the same state.
type server struct {
	t      *testing.T
	binary string
	env    []string
	dir    string   // of its state
	access []string // flags; empty: no token and any port

	cmd *exec.Cmd
	url string
}

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "deskhand")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "github.com/deskhand/deskhand/cmd/deskhand")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// start runs the server until the test ends, or kill.
func (s *server) start() {
	s.t.Helper()
	access := s.access
	if len(access) == 0 {
		access = []string{"--no-token", "--port", "0"}
	}
	cmd := exec.Command(s.binary, append([]string{"server", "--log-level", "warn"}, access...)...)
	cmd.Env = s.env
	cmd.Dir = s.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	found := make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			s.t.Log(lines.Text())
			if u := address.FindString(lines.Text()); u != "" {
				select {
				case found <- u:
				default:
				}
			}
		}
	}()
	s.t.Cleanup(s.stop)
	select {
	case s.url = <-found:
	case <-time.After(patience):
	}
	if s.url == "" {
		s.t.Fatal("the server says no address")
	}
}

// kill ends it as a power cut would.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
	s.cmd = nil
}

// post sends JSON and returns the answer, which must be a success.
func (s *server) post(path string, body any) json.RawMessage {
	s.t.Helper()
	raw, err := s.try(path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

func (s *server) try(path string, body any) (json.RawMessage, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: patience}
	res, err := client.Post(s.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("POST %s: %d %s", path, res.StatusCode, raw)
	}
	return raw, err
}

// event is one of an ACP server's.
type event struct {
	id      string
	message message
}

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// follower collects what an ACP server says, and answers permission requests.
type follower struct {
	s    *server
	path string
	done chan struct{}
	body io.Closer

	mu      sync.Mutex
	events  []event
	changed chan struct{}
	asked   int
}

func (s *server) follow(path, after string) *follower {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %s", path, res.Status)
	}
	f := &follower{s: s, path: path, done: make(chan struct{}), body: res.Body, changed: make(chan struct{})}
	go f.read(res.Body)
	s.t.Cleanup(f.close)
	return f
}

func (f *follower) close() {
	_ = f.body.Close()
	<-f.done
}

func (f *follower) read(r io.Reader) {
	defer close(f.done)
	lines := bufio.NewReader(r)
	var id string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(text)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m message
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			f.s.t.Errorf("event %s: %v", id, err)
			continue
		}
		f.add(event{id, m})
		if m.Method == "session/request_permission" {
			f.allow(m)
		}
	}
}

func (f *follower) add(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	close(f.changed)
	f.changed = make(chan struct{})
}

// allow says yes, once.
func (f *follower) allow(m message) {
	var ask struct {
		Options []struct{ OptionID, Kind string }
	}
	if err := json.Unmarshal(m.Params, &ask); err != nil {
		f.s.t.Error(err)
		return
	}
	i := slices.IndexFunc(ask.Options, func(o struct{ OptionID, Kind string }) bool { return o.Kind == "allow_once" })
	if i < 0 {
		f.s.t.Errorf("nothing to allow once: %s", m.Params)
		return
	}
	f.mu.Lock()
	f.asked++
	f.mu.Unlock()
	result := map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": ask.Options[i].OptionID}}
	if _, err := f.s.try(f.path, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}); err != nil {
		f.s.t.Error(err)
	}
}

// last is the id of the newest event.
func (f *follower) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events[len(f.events)-1].id
}

// until waits for an event.
func (f *follower) until(what string, is func(message) bool) {
	f.s.t.Helper()
	timeout := time.After(patience)
	for seen := 0; ; {
		f.mu.Lock()
		events, changed := f.events, f.changed
		f.mu.Unlock()
		if slices.ContainsFunc(events[seen:], func(e event) bool { return is(e.message) }) {
			return
		}
		seen = len(events)
		select {
		case <-changed:
		case <-timeout:
			f.s.t.Fatalf("no %s within %v; the last of %d events: %s", what, patience, len(events), f.tail())
		}
	}
}

func (f *follower) tail() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for _, e := range f.events[max(0, len(f.events)-6):] {
		text, _ := json.Marshal(e.message)
		fmt.Fprintf(&b, "\n%s %.400s", e.id, text)
	}
	return b.String()
}

// afterTurn is what the agent has said when the client's last turn is over. The
// answer to a POST may come before the events do that precede it.
func (f *follower) afterTurn(a *acp, session string) string {
	f.s.t.Helper()
	id := strconv.Itoa(a.next)
	f.until("answer", func(m message) bool { return string(m.ID) == id && m.Method == "" })
	return f.said(session)
}

// said is what the agent has said in a session, put together.
func (f *follower) said(session string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for _, e := range f.events {
		var u struct {
			SessionID string
			Update    struct {
				SessionUpdate string
				Content       json.RawMessage
			}
		}
		var content struct{ Text string }
		if e.message.Method != "session/update" || json.Unmarshal(e.message.Params, &u) != nil || u.SessionID != session {
			continue
		}
		if u.Update.SessionUpdate == "agent_message_chunk" && json.Unmarshal(u.Update.Content, &content) == nil {
			b.WriteString(content.Text)
		}
	}
	return b.String()
}

// acp is a client of one agent.
type acp struct {
	*server
	path, agent string
	next        int
	first       bool
}

func newACP(s *server, id, agent, query string) *acp {
	return &acp{server: s, path: "/v1/acp/" + url.PathEscape(id), agent: agent + query, first: true}
}

// call makes a request and returns its result.
func (a *acp) call(method string, params any) json.RawMessage {
	a.t.Helper()
	result, err := a.request(method, params)
	if err != nil {
		a.t.Fatal(err)
	}
	return result
}

func (a *acp) request(method string, params any) (json.RawMessage, error) {
	path := a.path
	if a.first {
		path, a.first = path+"?agent="+a.agent, false
	}
	a.next++
	raw, err := a.try(path, map[string]any{"jsonrpc": "2.0", "id": a.next, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", method, err, raw)
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s: %s", method, m.Error)
	}
	return m.Result, nil
}

// notify sends a notification.
func (a *acp) notify(method string, params any) {
	a.t.Helper()
	a.post(a.path, map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// prompt makes a turn and returns why it stopped.
func (a *acp) prompt(session, text string) string {
	a.t.Helper()
	stop, err := a.tryPrompt(session, text)
	if err != nil {
		a.t.Fatal(err)
	}
	return stop
}

func (a *acp) tryPrompt(session, text string) (string, error) {
	raw, err := a.request("session/prompt", map[string]any{
		"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}},
	})
	if err != nil {
		return "", err
	}
	var out struct{ StopReason string }
	err = json.Unmarshal(raw, &out)
	return out.StopReason, err
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-time.After(20 * time.Millisecond)
	}
}
