package opencomputer

import (
	"bytes"
	"context"
	bytewise "encoding/binary"
	"encoding/json"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencomputer"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// The first bytes of messages.
const (
	frameStdin     = 0
	frameStdout    = 1
	frameExit      = 3
	frameScrollEnd = 4
)

// maxLine is the largest length of a line of a client.
const maxLine = 8 << 20

func (a *area) attach(ctx context.Context, in *Target) (*rest.SocketOutput, error) {
	s, err := a.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	return &rest.SocketOutput{Body: func(ctx huma.Context) {
		a.Upgrade(ctx, maxLine+1, func(ctx context.Context, ws *rest.Socket) {
			c := client{session: s, ws: ws}
			c.serve(ctx)
		})
	}}, nil
}

// client is a client that is attached to a session.
type client struct {
	*session
	ws    *rest.Socket
	state opencomputer.State
	line  []byte // the beginning of a line of the client
}

func (c *client) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		c.show(ctx)
		c.ws.Finish()
	})
	for {
		_, data, err := c.ws.Receive()
		if err != nil {
			break
		}
		if len(data) > 0 && data[0] == frameStdin && !c.take(ctx, data[1:]) {
			break
		}
	}
	cancel()
	_ = c.ws.Under.Close() // ends a send that waits for the client
	wg.Wait()
}

// scrollPage is how many entries of the past are read at a time.
const scrollPage = 512

// show sends the present entries and then new ones, until the session ends.
func (c *client) show(ctx context.Context) {
	stream := agents.SessionStream(c.ID)
	newest, err := c.host.Log().Last(ctx, stream)
	if err != nil {
		return
	}
	over := false
	for at := int64(0); at < newest; {
		entries, err := c.host.Log().Read(ctx, stream, at, scrollPage)
		if err != nil || len(entries) == 0 {
			break
		}
		entries = entries[:min(int64(len(entries)), newest-at)]
		at = entries[len(entries)-1].Seq
		over = c.send(entries)
	}
	if c.ws.Send(websocket.BinaryMessage, []byte{frameScrollEnd}) != nil {
		return
	}
	news := c.host.Log().Follow(stream, newest)
	for !over {
		entries, err := news.Next(ctx)
		if err != nil {
			return
		}
		over = c.send(entries)
	}
	_ = c.ws.Send(websocket.BinaryMessage, bytewise.BigEndian.AppendUint32([]byte{frameExit}, c.exitStatus(ctx)))
}

// send sends the lines of entries, and reports whether the session has ended with the last
// of them.
func (c *client) send(entries []eventlog.Event) (over bool) {
	for i := range entries {
		e := &entries[i]
		for _, line := range c.state.Apply(*e) {
			if c.sendLine(line) != nil {
				return false // receiving fails as well, which ends the connection
			}
		}
		if e.Dir == eventlog.Agent && e.Kind == "session/ended" {
			continue // an agent does not end its session by saying so
		}
		over = e.Kind == "session/ended" || over && e.Kind != "session/restored" && e.Kind != "response:session/new"
	}
	return over
}

func (c *client) sendLine(line []byte) error {
	frame := make([]byte, 0, len(line)+2)
	frame = append(append(append(frame, frameStdout), line...), '\n')
	return c.ws.Send(websocket.BinaryMessage, frame)
}

// mostJoined is the length up to which a message without a line feed may come in pieces.
const mostJoined = 16 << 10

// take takes a piece of the client's lines. It returns false if the connection ends.
func (c *client) take(ctx context.Context, data []byte) bool {
	for len(data) > 0 {
		piece, rest, whole := bytes.Cut(data, []byte("\n"))
		inOne := len(c.line) == 0
		c.line, data = append(c.line, piece...), rest
		// A client may leave out the line feed of a message. A long line is examined once
		// only, because each piece of it may be a single byte.
		if !whole && !((inOne || len(c.line) <= mostJoined) && c.line[0] == '{' && json.Valid(c.line)) {
			return len(c.line) <= maxLine
		}
		line := bytes.TrimSpace(c.line)
		c.line = nil
		if len(line) == 0 {
			continue
		}
		if err := c.do(ctx, line); err != nil {
			text, _ := json.Marshal(map[string]string{"type": "error", "message": err.Error()})
			if c.sendLine(text) != nil {
				return false
			}
		}
	}
	return true
}

// do executes a line. It does not wait for a turn, so that an interrupt is read during one.
func (c *client) do(ctx context.Context, line []byte) error {
	var m struct {
		Type string `json:"type"`
		Text string `json:"text"`
		opencomputer.Options
	}
	if err := jsonlimit.CheckBody(line); err != nil {
		return rest.InvalidField("line", "a line "+err.Error())
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return rest.InvalidField("line", "a line must be a JSON object with a type: "+err.Error())
	}
	about := agenthost.Names{Session: c.ID}
	switch m.Type {
	case "prompt":
		return about.Explain(c.prompt(ctx, m.Text))
	case "interrupt":
		return about.Explain(c.host.Cancel(ctx, c.ID))
	case "configure":
		return c.configure(ctx, m.Options)
	}
	return rest.InvalidField("type", "type must be configure, prompt or interrupt")
}
