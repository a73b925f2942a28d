package httpapi

import (
	"context"
	bytewise "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// The first bytes of OpenComputer's frames.
const (
	ocStdin     = 0
	ocStdout    = 1
	ocExit      = 3
	ocScrollEnd = 4
)

// ocInfo describes a session.
type ocInfo struct {
	ID      string `json:"sessionID"`
	Running bool   `json:"running"`
}

// ocMessage is a line of the agent's, or another frame.
type ocMessage struct {
	frame   byte
	status  uint32 // of the end
	Type    string
	Subtype string
	Result  string
	Missed  []string `json:"notApplied"`
	Claude  string   `json:"claude_session_id"`
	Message json.RawMessage
}

// ocRead reads frames until f says that it has seen enough.
func ocRead(t *testing.T, conn *websocket.Conn, f func(ocMessage) bool) (all []ocMessage) {
	t.Helper()
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage || len(data) == 0 {
			t.Fatalf("%d %q %v after %+v", kind, data, err, all)
		}
		m := ocMessage{frame: data[0]}
		switch m.frame {
		case ocExit:
			m.status = bytewise.BigEndian.Uint32(data[1:])
		case ocStdout:
			if err := json.Unmarshal(data[1:], &m); err != nil || data[len(data)-1] != '\n' {
				t.Fatalf("%v in %q", err, data)
			}
		}
		all = append(all, m)
		if f(m) {
			return all
		}
	}
}

func ofType(kind string) func(ocMessage) bool {
	return func(m ocMessage) bool { return m.Type == kind }
}

func isFrame(b byte) func(ocMessage) bool { return func(m ocMessage) bool { return m.frame == b } }

func kinds(all []ocMessage) string {
	var b strings.Builder
	for _, m := range all {
		if m.frame != ocStdout {
			fmt.Fprintf(&b, "%d ", m.frame)
			continue
		}
		b.WriteString(m.Type + " ")
	}
	return strings.TrimSpace(b.String())
}

func ocWrite(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	if err := conn.WriteMessage(websocket.BinaryMessage, append([]byte{ocStdin}, text...)); err != nil {
		t.Fatal(err)
	}
}

func TestOpenComputer(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	const base = "/opencomputer/sandboxes/box/agent"
	key := map[string]string{"X-Api-Key": s.Token()}
	made := s.do(t, call{path: base, body: fmt.Sprintf(`{"agent":"mock","cwd":%q,"systemPrompt":"Be short.","prompt":"hello"}`, t.TempDir()), header: key, anon: true}).want(t, http.StatusCreated).json(t)
	id, _ := made["sessionID"].(string)
	if id == "" || made["sandboxID"] != "box" || made["running"] != true || fmt.Sprint(made["notApplied"]) == "<nil>" {
		t.Fatal(made)
	}
	conn := s.dial(t, "/opencomputer/sandboxes/box/exec/"+id+"?token="+s.Token(), http.Header{})
	first := ocRead(t, conn, ofType("turn_complete"))
	// The end of what was before may be anywhere: the turn may still have run.
	if got := strings.Join(strings.Fields(strings.ReplaceAll(kinds(first), "4", "")), " "); got != "ready system assistant result turn_complete" {
		t.Error(got)
	}
	if c := first[len(first)-1].Claude; !strings.HasPrefix(c, "mock-") {
		t.Error(c)
	}
	if !strings.Contains(kinds(first), "4") {
		ocRead(t, conn, isFrame(ocScrollEnd))
	}

	// Lines in pieces, two in one, and one without a line feed.
	ocWrite(t, conn, `{"type":"configure","model":"mock-fast","cwd":"/","allowed`)
	ocWrite(t, conn, `Tools":["x"]}`+"\n"+`{"type":"nonsense"}`+"\n")
	// The error is told at once, the configuration by way of the log.
	seen := map[string]ocMessage{}
	ocRead(t, conn, func(m ocMessage) bool {
		seen[m.Type] = m
		return seen["error"].frame != 0 && seen["configured"].frame != 0
	})
	if got := fmt.Sprint(seen["configured"].Missed); got != "[allowedTools cwd]" {
		t.Error(got)
	}
	ocWrite(t, conn, `{"type":"prompt","text":"demo"}`)
	demo := ocRead(t, conn, ofType("turn_complete"))
	if got := kinds(demo); !strings.HasSuffix(got, "assistant assistant assistant user assistant user assistant result turn_complete") {
		t.Error(got)
	}

	ocWrite(t, conn, `{"type":"configure","more":`+strings.Repeat("[", jsonlimit.MaxDepth)+strings.Repeat("]", jsonlimit.MaxDepth)+"}\n")
	refused := ocRead(t, conn, ofType("error"))
	if m := refused[len(refused)-1].Message; !strings.Contains(string(m), "nested too deep") {
		t.Errorf("a line that is nested too deep: %q", m)
	}

	// An interrupt is read while the turn runs.
	ocWrite(t, conn, `{"type":"prompt","text":"slow"}`+"\n"+`{"type":"interrupt"}`+"\n")
	if got := kinds(ocRead(t, conn, ofType("turn_complete"))); !strings.HasSuffix(got, "result interrupted turn_complete") {
		t.Error(got)
	}
	s.do(t, call{path: base + "/" + id + "/prompt", body: `{"text":"slow"}`}).want(t, http.StatusNoContent)
	s.do(t, call{method: http.MethodPost, path: base + "/" + id + "/interrupt"}).want(t, http.StatusNoContent)
	if got := kinds(ocRead(t, conn, ofType("turn_complete"))); !strings.HasSuffix(got, "result interrupted turn_complete") {
		t.Error(got)
	}

	// Another client sees all of it first, and both see the end.
	other := s.dial(t, base+"/"+id, nil)
	before := ocRead(t, other, isFrame(ocScrollEnd))
	if n := strings.Count(kinds(before), "turn_complete"); n != 4 {
		t.Errorf("%d turns: %s", n, kinds(before))
	}
	s.do(t, call{path: base + "/" + id + "/kill", body: `{"signal":9}`}).want(t, http.StatusNoContent)
	late := s.dial(t, base+"/"+id, nil)
	for _, c := range []*websocket.Conn{conn, other, late} {
		end := ocRead(t, c, isFrame(ocExit))
		if c == late && !strings.HasSuffix(kinds(end), "4 3") {
			t.Error(kinds(end))
		}
		if status := end[len(end)-1].status; status != 128+9 {
			t.Errorf("exit status %d", status)
		}
	}
	s.do(t, call{path: base + "/" + id + "/kill", body: `{"signal":15}`}).want(t, http.StatusNoContent) // too late to count
	again := ocRead(t, s.dial(t, base+"/"+id, nil), isFrame(ocExit))
	if status := again[len(again)-1].status; status != 128+9 {
		t.Errorf("exit status %d", status)
	}
	s.do(t, call{path: base + "/" + id + "/kill", body: `{"signal":65}`}).problem(t, 422, "invalid_request")
	var list []ocInfo
	decode(t, s.do(t, call{path: base}).want(t, 200).body, &list)
	if len(list) != 1 || list[0].ID != id || list[0].Running {
		t.Errorf("%+v", list)
	}
	decode(t, s.do(t, call{path: "/opencomputer/sandboxes/empty/agent"}).want(t, 200).body, &list)
	if len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestOpenComputerSandboxRefusals: a sandbox's own directory is not removed as a file, and a
// timeout that no timer can hold is refused.
func TestOpenComputerSandboxRefusals(t *testing.T) { //nolint:paralleltest // it sets a variable
	t.Setenv("HOME", t.TempDir())
	s := serve(t, Config{})
	id := s.post(t, "/opencomputer/api/sandboxes", "{}").want(t, 200).json(t)["sandboxID"].(string)
	one := "/opencomputer/api/sandboxes/" + id
	for _, path := range []string{"", ".", "x/.."} {
		if a := s.do(t, call{method: http.MethodDelete, path: one + "/files?path=" + path}); a.StatusCode != 400 {
			t.Errorf("removing %q: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := s.do(t, call{path: one + "/exec/run-async", body: `{"cmd":"true","timeout":9300000000}`}); a.StatusCode != 400 {
		t.Errorf("a timeout of 300 years: %d %s", a.StatusCode, a.body)
	}
	s.do(t, call{method: http.MethodDelete, path: one}).want(t, 204)
}

// TestOpenComputerKilledSandbox: a killed sandbox starts no agents. A removal that has failed can be
// tried again.
func TestOpenComputerKilledSandbox(t *testing.T) { //nolint:paralleltest // it sets a variable
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := serve(t, Config{})
	id := s.post(t, "/opencomputer/api/sandboxes", "{}").want(t, 200).json(t)["sandboxID"].(string)
	one, all := "/opencomputer/api/sandboxes/"+id, filepath.Join(home, "sandboxes")
	if err := os.Rename(all, all+"x"); err != nil {
		t.Fatal(err)
	}
	s.do(t, call{method: http.MethodDelete, path: one}).want(t, 404)
	if err := os.Rename(all+"x", all); err != nil {
		t.Fatal(err)
	}
	s.get(t, one).want(t, 404)
	s.post(t, "/opencomputer/sandboxes/"+id+"/agent", `{"agent":"mock"}`).want(t, 404)
	s.do(t, call{method: http.MethodDelete, path: one}).want(t, 204)
	if _, err := os.Lstat(filepath.Join(all, id)); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	s.do(t, call{method: http.MethodDelete, path: one}).want(t, 404)
}

// TestOpenComputerKilledMeanwhile: an agent ends if its sandbox was killed while the agent started.
func TestOpenComputerKilledMeanwhile(t *testing.T) { //nolint:paralleltest // it sets a variable
	t.Setenv("HOME", t.TempDir())
	starting, held := make(chan bool), make(chan bool)
	start := sync.OnceFunc(func() { close(held) })
	defer start()
	s := serve(t, Config{AgentHost: agents.Config{Launch: func(context.Context, string) (agents.Launch, error) {
		close(starting)
		<-held
		return agents.Launch{Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return mockagent.Run(ctx, in, out, mockagent.Config{})
		}}, nil
	}}})
	id := s.post(t, "/opencomputer/api/sandboxes", "{}").want(t, 200).json(t)["sandboxID"].(string)
	made := make(chan answer, 1)
	go func() {
		made <- s.do(t, call{path: "/opencomputer/sandboxes/" + id + "/agent", body: fmt.Sprintf(`{"agent":"mock","cwd":%q}`, t.TempDir())})
	}()
	<-starting
	s.do(t, call{method: http.MethodDelete, path: "/opencomputer/api/sandboxes/" + id}).want(t, 204)
	start()
	if a := <-made; a.StatusCode != 404 {
		t.Errorf("the agent of a killed sandbox: %d %s", a.StatusCode, a.body)
	}
	all, _, err := s.agents.Started().Sessions(t.Context(), eventlog.SessionFilter{}, "", 0)
	if err != nil || len(all) != 1 || all[0].State != eventlog.Ended {
		t.Errorf("sessions %+v, %v", all, err)
	}
}

// TestOpenComputerRemovedProgram: a sandbox forgets a program with the server, at the latest when it
// starts another one.
func TestOpenComputerRemovedProgram(t *testing.T) { //nolint:paralleltest // it sets a variable
	t.Setenv("HOME", t.TempDir())
	s := serve(t, Config{})
	one := "/opencomputer/api/sandboxes/" + s.post(t, "/opencomputer/api/sandboxes", "{}").want(t, 200).json(t)["sandboxID"].(string)
	start := func(command string) string {
		id, _ := s.post(t, one+"/exec/run-async", `{"cmd":"`+command+`"}`).want(t, 200).json(t)["execId"].(string)
		return one + "/exec/" + id + "/result"
	}
	first := start("cat")
	until(t, "the program has ended", func() bool { return s.get(t, first).want(t, 200).json(t)["running"] == false })
	s.do(t, call{method: http.MethodDelete, path: "/v1/processes/" + strings.Split(first, "/")[6]}).want(t, 204)
	second := start("cat")
	s.get(t, first).want(t, 404)
	s.get(t, second).want(t, 200)
}

// TestOpenComputerManyLines: the work for a message grows with its length only.
func TestOpenComputerManyLines(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	const base = "/opencomputer/sandboxes/box/agent"
	made := s.do(t, call{path: base, body: fmt.Sprintf(`{"agent":"mock","cwd":%q}`, t.TempDir())}).want(t, http.StatusCreated).json(t)
	conn := s.dial(t, fmt.Sprint(base, "/", made["sessionID"]), nil)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ocWrite(t, conn, strings.Repeat("\n", 4<<20)+`{"type":"lines"}`)
	ocRead(t, conn, ofType("error"))
	ocWrite(t, conn, `{"type":"`+strings.Repeat("x", 4<<20))
	for range 20_000 {
		ocWrite(t, conn, "x")
	}
	ocWrite(t, conn, "\"}\n")
	ocRead(t, conn, ofType("error"))
}

func TestOpenComputerRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	const base = "/opencomputer/sandboxes/box/agent"
	for _, header := range []map[string]string{nil, {"X-Api-Key": "wrong"}} {
		if a := s.do(t, call{path: base, header: header, anon: true}); a.StatusCode != http.StatusUnauthorized {
			t.Error(a.StatusCode)
		}
	}
	if a := s.do(t, call{path: "/v1/sessions?token=" + s.Token(), header: map[string]string{"X-Api-Key": s.Token()}, anon: true}); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("other routes take that key: %d", a.StatusCode)
	}
	for body, status := range map[string]int{
		`{"agent":"nothing"}`: 400, `{"agent":"mock","cwd":"relative"}`: 400, `{"agent":"mock","mcpServers":{"x":7}}`: 400,
		`{"agent":"mock","mcpServers":{"x":{"type":"odd"}}}`: 400, `{"maxTurns":-1}`: 422,
	} {
		if a := s.do(t, call{path: base, body: body}); a.StatusCode != status {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
	for body, field := range map[string]string{
		`{"agent":"mock","mcpServers":{"x":7}}`: "mcpServers", `{"agent":"mock","mcpServers":{"x":{"type":"odd"}}}`: "mcpServers",
		`{"agent":"mock","cwd":"/","prompt":" "}`: "text",
	} {
		if p := s.do(t, call{path: base, body: body}).problem(t, 400, "invalid_request"); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}
	for _, path := range []string{"/prompt", "/interrupt", "/kill"} {
		if a := s.do(t, call{method: http.MethodPost, path: base + "/absent" + path, body: `{"text":"x"}`}); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	s.post(t, "/v1/sessions/rest", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	if a := s.do(t, call{path: base + "/rest/prompt", body: `{"text":"x"}`}); a.StatusCode != http.StatusNotFound {
		t.Errorf("a session of another API: %d", a.StatusCode)
	}
}
