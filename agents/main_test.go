package agents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// limit bounds the steps of tests that should take no time.
const limit = 20 * time.Second

// actAs makes the test binary a scripted agent, or a host that is killed.
const actAs = "AGENTS_TEST_ACT_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case "agent":
		os.Exit(scripted())
	case "chooser":
		os.Exit(chooser())
	case "host":
		os.Exit(victim())
	case "left":
		os.Exit(leave())
	}
	code := m.Run()
	testpostgres.Remove()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// soak is the factor by which the long tests run longer: DESKHAND_SOAK, which make soak sets
// to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// agentOf starts the scripted agent. env has settings for it: NAME=value.
func agentOf(env ...string) func(context.Context, string) (agents.Launch, error) {
	return func(_ context.Context, name string) (agents.Launch, error) {
		if name == "nope" {
			return agents.Launch{Path: "/nonexistent/agent"}, nil
		}
		exe, err := os.Executable()
		return agents.Launch{Version: "1", Path: exe, Env: append([]string{actAs + "=agent", "GORACE=atexit_sleep_ms=0"}, env...)}, err
	}
}

func openLog(t testing.TB, dsn string) *eventlog.Log {
	t.Helper()
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: dsn, Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// host runs a host until the test ends.
func host(t testing.TB, cfg agents.Config) *agents.Host {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = openLog(t, "")
	}
	if cfg.Launch == nil && cfg.Registry == nil {
		cfg.Launch = agentOf()
	}
	h, err := agents.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// closing closes something at the end of a test.
func closing(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// post posts a message, which must succeed.
func post(t testing.TB, h *agents.Host, server, message string) string {
	t.Helper()
	answer, err := h.Post(within(t), server, agents.PostOptions{Agent: "scripted"}, []byte(message))
	if err != nil {
		t.Fatalf("post %.200s: %v", message, err)
	}
	return string(answer)
}

// follow reads a server's events until one contains text, and returns all. The limit applies
// to each wait for the next events.
func follow(t testing.TB, h *agents.Host, server string, r agents.Replay, text string) []eventlog.Event {
	t.Helper()
	s, err := h.Follow(within(t), server, r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []eventlog.Event
	for {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		events, err := s.Next(ctx)
		cancel()
		if err != nil {
			t.Fatalf("no event with %q among %s: %v", text, payloads(all), err)
		}
		for _, e := range events {
			all = append(all, e)
			if bytes.Contains(e.Payload, []byte(text)) {
				return all
			}
		}
	}
}

func payloads(events []eventlog.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "\n%d %v %.3000s", e.Seq, e.Dir, e.Payload)
	}
	return b.String()
}

// member returns a member of a JSON object by its path.
func member(t testing.TB, text string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(text)
	for _, name := range path {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%s of %.300s: %v", strings.Join(path, "."), text, err)
		}
		raw = m[name]
	}
	return string(raw)
}

// scripted is an agent that does what the method of a request names. It keeps its sessions in
// the folder SESSIONS, if that is set.
func scripted() int {
	a := &script{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: bufio.NewWriter(os.Stdout), dir: os.Getenv("SESSIONS")}
	for {
		line, err := a.in.ReadBytes('\n')
		if err != nil {
			if os.Getenv("IGNORE_EOF") != "" {
				note([]byte("the end of the input\n"))
				select {} // until it is killed
			}
			return 0
		}
		note(line)
		if code := a.handle(line); code >= 0 {
			return code
		}
	}
}

// note records a message that a scripted agent has got.
func note(line []byte) {
	if f, err := os.OpenFile(os.Getenv("RECEIVED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_, _ = f.Write(line)
		_ = f.Close()
	}
}

type script struct {
	in   *bufio.Reader
	out  *bufio.Writer
	dir  string
	made int
	held bool // it has kept silent once
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

func (a *script) say(format string, args ...any) {
	fmt.Fprintf(a.out, format+"\n", args...)
	_ = a.out.Flush()
}

func (a *script) update(session, text string) {
	a.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, session, text)
}

func (a *script) result(id json.RawMessage, result string) {
	a.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// handle handles a message. It returns the exit status, or -1.
func (a *script) handle(line []byte) int {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return 9
	}
	if os.Getenv("DIE_AT") == m.Method && m.Method != "" {
		fmt.Fprintln(os.Stderr, "dying at", m.Method)
		return 7
	}
	if os.Getenv("SILENT_AT") == m.Method && m.Method != "" {
		return -1
	}
	if os.Getenv("SILENT_ONCE") == m.Method && m.Method != "" && !a.held {
		a.held = true
		return -1
	}
	switch m.Method {
	case "":
		a.say(`{"jsonrpc":"2.0","method":"got/answer","params":%s}`, bytes.TrimSpace(line))
	case "initialize":
		if os.Getenv("ASK_AT") == "" {
			gated()
		}
		caps := os.Getenv("CAPS")
		if caps == "" {
			caps = "{}"
		}
		a.result(m.ID, `{"protocolVersion":1,"agentCapabilities":`+caps+`}`)
	case "session/new", "session/fork":
		a.made++
		id := fmt.Sprintf("s%d-%d", os.Getpid(), a.made)
		if os.Getenv("SAME_IDS") != "" {
			id = fmt.Sprintf("s%d", a.made)
		}
		a.keep(id, "")
		if os.Getenv("NAMELESS") != "" {
			id = ""
		}
		a.result(m.ID, fmt.Sprintf(`{"sessionId":%q,"modes":{"currentModeId":"a","availableModes":[%s]}}`, id, os.Getenv("MODES")))
	case "session/load", "session/resume":
		return a.reopen(m)
	case "session/prompt":
		return a.prompt(m)
	case "session/cancel":
		a.say(`{"jsonrpc":"2.0","method":"got/cancel","params":%s}`, m.Params)
	case "echo":
		a.result(m.ID, string(m.Params))
	case "fail":
		fmt.Fprintln(os.Stderr, "what went wrong")
		a.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, m.ID)
	case "die":
		fmt.Fprintln(os.Stderr, "last words")
		return 7
	case "raw":
		var p struct{ Line string }
		_ = json.Unmarshal(m.Params, &p)
		a.say("%s", p.Line)
		if m.ID != nil {
			a.result(m.ID, "{}")
		}
	case "huge":
		a.huge(m)
	case "many":
		a.say(`{"jsonrpc":"2.0","id":%s,"result":[%s{}]}`, m.ID, strings.Repeat("{},", 300_000))
	case "env":
		env, _ := json.Marshal(os.Environ())
		a.result(m.ID, string(env))
	default:
		if m.ID != nil {
			a.result(m.ID, `{"method":`+strconv.Quote(m.Method)+`}`)
		}
	}
	return -1
}

// huge writes a line of that many bytes in place of an answer.
func (a *script) huge(m message) {
	var p struct{ Size int }
	_ = json.Unmarshal(m.Params, &p)
	fmt.Fprintf(a.out, `{"jsonrpc":"2.0","id":%s,"result":"`, m.ID)
	part := bytes.Repeat([]byte("x"), 1<<16)
	for n := p.Size; n > 0; n -= len(part) {
		_, _ = a.out.Write(part[:min(n, len(part))])
	}
	a.say(`"}`)
}

func (a *script) keep(session, text string) {
	if a.dir == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(a.dir, session), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.WriteString(text)
		_ = f.Close()
	}
}

func (a *script) reopen(m message) int {
	var p struct{ SessionID string }
	_ = json.Unmarshal(m.Params, &p)
	known, err := os.ReadFile(filepath.Join(a.dir, p.SessionID))
	if a.dir == "" || err != nil {
		a.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown session"}}`, m.ID)
		return -1
	}
	if m.Method == "session/load" {
		for line := range strings.Lines(string(known)) {
			a.update(p.SessionID, "again: "+strings.TrimSpace(line))
		}
	}
	if os.Getenv("ASK_AT") == m.Method {
		gated()
		a.ask(p.SessionID, "")
		if os.Getenv("ASK_ON") == "" && !a.hears(p.SessionID) {
			return 0
		}
	}
	a.result(m.ID, "{}")
	return -1
}

// ask asks for permission.
func (a *script) ask(session, kinds string) {
	if kinds == "always" {
		a.say(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":%q,"toolCall":{"toolCallId":"t1"},"options":[{"optionId":"all-2","name":"Always","kind":"allow_always"},{"optionId":"none-4","name":"Never","kind":"reject_always"}]}}`, session)
		return
	}
	a.say(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":%q,"toolCall":{"toolCallId":"t1"},"options":[{"optionId":"yes-1","name":"Yes","kind":"allow_once"},{"optionId":"all-2","name":"Always","kind":"allow_always"},{"optionId":"no-3","name":"No","kind":"reject_once"}]}}`, session)
}

// hears waits for the answer, and sends it as an update.
func (a *script) hears(session string) bool {
	line, err := a.in.ReadBytes('\n')
	for err == nil && !bytes.Contains(line, []byte("outcome")) {
		line, err = a.in.ReadBytes('\n')
	}
	if err != nil {
		return false
	}
	var answer message
	_ = json.Unmarshal(line, &answer)
	a.update(session, "answered "+string(answer.Result))
	return true
}

// prompt does what the first word of a prompt names.
func (a *script) prompt(m message) int {
	var p struct {
		SessionID string
		Prompt    []struct{ Text string }
	}
	_ = json.Unmarshal(m.Params, &p)
	var all []string
	for _, b := range p.Prompt {
		all = append(all, b.Text)
	}
	text := strings.Join(all, "|")
	a.keep(p.SessionID, text+"\n")
	word, rest, _ := strings.Cut(all[len(all)-1], " ")
	switch word {
	case "burst":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			a.update(p.SessionID, fmt.Sprintf("part %d", i))
		}
	case "count":
		token, count, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(count)
		for i := range n {
			a.update(p.SessionID, fmt.Sprintf("<%s/%d>", token, i))
		}
	case "ask":
		a.ask(p.SessionID, rest)
		if !a.hears(p.SessionID) {
			return 0
		}
	case "flood":
		if !a.flood(p.SessionID, rest) {
			return 0
		}
	case "hang":
		a.update(p.SessionID, "hanging")
		return -1
	case "die":
		a.update(p.SessionID, "dying")
		return 7
	default:
		a.update(p.SessionID, "you said: "+text)
	}
	a.result(m.ID, `{"stopReason":"end_turn"}`)
	return -1
}

// flood asks as many questions as the first number says, each with as many bytes as the second
// one. It reads until all but as many as the third one have failed.
func (a *script) flood(session, numbers string) bool {
	var n, size, taken int
	_, _ = fmt.Sscan(numbers, &n, &size, &taken)
	for i := range n {
		a.say(`{"jsonrpc":"2.0","id":"q%d","method":"session/request_permission","params":{"sessionId":%q,"pad":%q,"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}`,
			i, session, strings.Repeat("x", size))
	}
	for failed := 0; failed < n-taken; {
		line, err := a.in.ReadBytes('\n')
		if err != nil {
			return false
		}
		if bytes.Contains(line, []byte(`"error"`)) {
			failed++
		}
	}
	return true
}
