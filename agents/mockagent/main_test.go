package mockagent_test

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
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents/mockagent"
)

// limit bounds the wait for anything that is fast.
const limit = 20 * time.Second

// playVariable makes the test binary the agent, or an MCP server, instead of
// running tests.
const playVariable = "MOCKAGENT_TEST_PLAY"

func TestMain(m *testing.M) {
	switch os.Getenv(playVariable) {
	case "agent":
		if err := mockagent.Run(context.Background(), os.Stdin, os.Stdout, mockagent.Config{Dir: os.Getenv("MOCKAGENT_TEST_DIR")}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	case "mcp":
		if err := toolServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// toolServer is an MCP server with a few tools.
func toolServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	count := 0
	type input struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "counts"}, func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, any, error) {
		count++
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: fmt.Sprintf("call %d in %s", count, os.Getenv("PLACE"))},
			&mcp.ImageContent{Data: []byte("not really a picture"), MIMEType: "image/png"},
		}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "refuse", Description: "refuses"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("will not " + in.Text)
	})
	return s
}

// toolHandler serves the tools over HTTP to clients with the token.
func toolHandler() http.Handler {
	server := toolServer()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "token", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// message is a message of the agent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
		Update    upd    `json:"update"`
		ToolCall  upd    `json:"toolCall"`
		Options   []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
		Message json.RawMessage `json:"message"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	raw string
}

type upd struct {
	Kind          string          `json:"sessionUpdate"`
	Content       json.RawMessage `json:"content"`
	ToolCallID    string          `json:"toolCallId"`
	ToolKind      string          `json:"kind"`
	Status        string          `json:"status"`
	CurrentModeID string          `json:"currentModeId"`
}

// text returns the text of a chunk, or of the first content of a tool call.
func (u upd) text() string {
	var b struct{ Text string }
	if json.Unmarshal(u.Content, &b) == nil {
		return b.Text
	}
	var all []struct{ Content struct{ Text string } }
	if json.Unmarshal(u.Content, &all) == nil && len(all) > 0 {
		return all[0].Content.Text
	}
	return ""
}

// client talks to one agent.
type client struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
	done  chan struct{} // closed when Run has returned
	err   error         // of Run
	next  int
	seen  []message // notifications and questions since the last call
}

func startAgent(t *testing.T, cfg mockagent.Config) *client {
	t.Helper()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	c := &client{t: t, in: in, lines: make(chan string, 1<<16), done: make(chan struct{}), next: 0}
	go func() {
		defer close(c.done)
		c.err = mockagent.Run(context.Background(), theirIn, theirOut, cfg)
		_ = theirOut.Close()
	}()
	go func() {
		defer close(c.lines)
		r := bufio.NewReader(out)
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- l
		}
	}()
	t.Cleanup(func() { _ = c.stop() })
	return c
}

// stop ends the agent by the end of its input.
func (c *client) stop() error {
	c.t.Helper()
	_ = c.in.Close()
	select {
	case <-c.done:
	case <-time.After(limit):
		c.t.Fatal("the agent does not end")
	}
	return c.err
}

func (c *client) write(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next message.
func (c *client) read() message {
	c.t.Helper()
	select {
	case l, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the agent has ended")
		}
		var m message
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			c.t.Fatalf("%v in %q", err, l)
		}
		m.raw = strings.TrimSuffix(l, "\n")
		return m
	case <-time.After(limit):
		c.t.Fatal("the agent says nothing")
		panic("unreachable")
	}
}

// send sends a request without waiting, and returns its id.
func (c *client) send(method, params string) string {
	c.t.Helper()
	id := fmt.Sprint(c.next)
	c.next++
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return id
}

// wait reads until the answer to a request, or until stop returns true.
func (c *client) wait(id string, stop func(message) bool) message {
	c.t.Helper()
	for {
		m := c.read()
		if stop != nil && stop(m) {
			return m
		}
		if m.Method != "" {
			c.seen = append(c.seen, m)
			continue
		}
		if string(m.ID) == id {
			return m
		}
	}
}

// call sends a request and waits for its answer.
func (c *client) call(method, params string) message {
	c.t.Helper()
	c.seen = nil
	return c.wait(c.send(method, params), nil)
}

// must is like call but fails the test after an error, and decodes the result.
func (c *client) must(method, params string, result any) {
	c.t.Helper()
	m := c.call(method, params)
	if m.Error != nil {
		c.t.Fatalf("%s %s: %s", method, params, m.Error.Message)
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		c.t.Fatal(err)
	}
}

// session begins a session whose first prompt has ended.
func (c *client) session(servers string) string {
	c.t.Helper()
	var r struct{ SessionID string }
	c.must("session/new", fmt.Sprintf(`{"cwd":"/tmp","mcpServers":%s}`, servers), &r)
	c.prompt(r.SessionID, "hello")
	return r.SessionID
}

func promptParams(id, text string) string {
	return fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, id, text)
}

// prompt runs a turn and returns why it ended.
func (c *client) prompt(id, text string) string {
	c.t.Helper()
	var r struct{ StopReason string }
	c.must("session/prompt", promptParams(id, text), &r)
	return r.StopReason
}

// said returns the agent's message since the last call.
func (c *client) said() string {
	var b strings.Builder
	for _, m := range c.seen {
		if m.Params.Update.Kind == "agent_message_chunk" {
			b.WriteString(m.Params.Update.text())
		}
	}
	return b.String()
}

// kinds returns the kinds of the updates since the last call, with tool calls' states.
func (c *client) kinds() string {
	var all []string
	for _, m := range c.seen {
		k := m.Params.Update.Kind
		if s := m.Params.Update.Status; s != "" {
			k += ":" + s
		}
		all = append(all, k)
	}
	return strings.Join(all, " ")
}
