package httpapi

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
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// The first bytes of messages.
const (
	ocStdin     = 0
	ocStdout    = 1
	ocExit      = 3
	ocScrollEnd = 4
)

// mostOCLine is how long a line of a client's may be.
const mostOCLine = 8 << 20

func (s *Server) ocAttach(ctx context.Context, in *ocSession) (*rest.SocketOutput, error) {
	v, err := s.ocView(ctx, *in)
	if err != nil {
		return nil, err
	}
	return &rest.SocketOutput{Body: func(ctx huma.Context) {
		s.rest.Upgrade(ctx, mostOCLine+1, func(ctx context.Context, ws *rest.Socket) {
			c := ocClient{view: v, ws: ws}
			c.serve(ctx)
		})
	}}, nil
}

// ocClient is a client that is attached to a session.
type ocClient struct {
	*view

	ws    *rest.Socket
	state opencomputer.State
	line  []byte // of what the client sends, its beginning
}

func (c *ocClient) serve(ctx context.Context) {
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
		if len(data) > 0 && data[0] == ocStdin && !c.take(ctx, data[1:]) {
			break
		}
	}
	cancel()
	_ = c.ws.Under.Close() // what is still being sent to it is not waited for
	wg.Wait()
}

// scrollPage is how many entries of the past are read at a time.
const scrollPage = 512

// show sends what was, and then what comes, until the session ends.
func (c *ocClient) show(ctx context.Context) {
	stream := agents.SessionStream(c.session.ID)
	newest, err := c.log.Last(ctx, stream)
	if err != nil {
		return
	}
	over := false
	for at := int64(0); at < newest; {
		entries, err := c.log.Read(ctx, stream, at, scrollPage)
		if err != nil || len(entries) == 0 {
			break
		}
		entries = entries[:min(int64(len(entries)), newest-at)]
		at = entries[len(entries)-1].Seq
		over = c.send(entries)
	}
	if c.ws.Send(websocket.BinaryMessage, []byte{ocScrollEnd}) != nil {
		return
	}
	news := c.log.Follow(stream, newest)
	for !over {
		entries, err := news.Next(ctx)
		if err != nil {
			return
		}
		over = c.send(entries)
	}
	_ = c.ws.Send(websocket.BinaryMessage, bytewise.BigEndian.AppendUint32([]byte{ocExit}, uint32(ocStatus(ctx, c.view))))
}

// send sends what entries become, and tells whether the session has ended with
// the last of them.
func (c *ocClient) send(entries []eventlog.Event) (over bool) {
	for i := range entries {
		e := &entries[i]
		for _, line := range c.state.Apply(opencomputer.Entry{Process: e.Process, Dir: opencomputer.Direction(e.Dir), Kind: e.Kind, Payload: e.Payload}) {
			if c.tell(line) != nil {
				return false // receiving fails as well, which ends all
			}
		}
		over = e.Kind == "session/ended" || over && e.Kind != "session/restored" && e.Kind != "response:session/new"
	}
	return over
}

func (c *ocClient) tell(line []byte) error {
	frame := make([]byte, 0, len(line)+2)
	frame = append(append(append(frame, ocStdout), line...), '\n')
	return c.ws.Send(websocket.BinaryMessage, frame)
}

// take takes a piece of the client's lines. False ends the connection.
func (c *ocClient) take(ctx context.Context, data []byte) bool {
	c.line = append(c.line, data...)
	for {
		line, rest, whole := bytes.Cut(c.line, []byte("\n"))
		if !whole {
			// A client may leave the line feed of a message away.
			if json.Valid(c.line) && len(c.line) > 0 && c.line[0] == '{' {
				line, rest = c.line, nil
			} else {
				return len(c.line) <= mostOCLine
			}
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := c.do(ctx, line); err != nil {
				text, _ := json.Marshal(map[string]string{"type": "error", "message": err.Error()})
				if c.tell(text) != nil {
					return false
				}
			}
		}
		if c.line = bytes.Clone(rest); len(c.line) == 0 {
			return true
		}
	}
}

// do does what one line says. Nothing here waits for a turn, so that interrupt
// is read while one runs.
func (c *ocClient) do(ctx context.Context, line []byte) error {
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
	switch m.Type {
	case "prompt":
		return ocSay(ctx, c.view, m.Text)
	case "interrupt":
		return nilOr(c.host.Cancel(ctx, c.session.ID), c.session.ID)
	case "configure":
		return ocConfigure(ctx, c.view, m.Options)
	}
	return rest.InvalidField("type", "type must be configure, prompt or interrupt")
}
