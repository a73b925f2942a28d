package processes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
	"github.com/deskhand/deskhand/process"
)

const (
	// terminalChunk is how much output one message carries at most.
	terminalChunk = 64 << 10
	// inputPatience is how long a program may leave what was typed unread.
	inputPatience = 5 * time.Second
)

type terminalInput struct {
	ID     string `path:"id"`
	Replay int    `query:"replay" minimum:"0" doc:"Bytes of earlier output to send first, as far as they are kept"`
}

const aboutTerminal = `Upgrades to a WebSocket. The server sends {"type":"ready","processId"}, the
terminal's output in binary messages, {"type":"gap","bytes"} in place of output that was dropped because the client was
too slow, {"type":"error","message"}, and {"type":"exit","exitCode"} before it closes. The message ready has "replay" if
that many bytes of earlier output, or of gaps, come first. The client sends
{"type":"input","data","encoding":"utf8"|"base64"}, {"type":"resize","cols","rows"} and {"type":"close"}. Any number
of clients may share a terminal: each gets all output and may send input.`

func (a *Area) registerTerminal() {
	r := rest.Route{
		ID: "connectTerminal", Method: http.MethodGet, Path: "/v1/processes/{id}/terminal/ws", Tag: "Processes", Query: true, Scope: grants.ScopeSupervise, Enter: a.enter,
		Summary: "Connect to the terminal of a process", About: aboutTerminal,
		Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
		More:   map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}},
	}
	rest.Add(a.Group, r, func(_ context.Context, in *terminalInput) (*rest.SocketOutput, error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		m, err := a.Manager()
		if err != nil {
			return nil, err
		}
		if !p.Info().Terminal {
			return nil, process.ErrNotTerminal
		}
		return &rest.SocketOutput{Body: func(ctx huma.Context) {
			// A control character takes six bytes as JSON.
			most := int64(m.Limits().MaxInput)*6 + 4096
			a.Upgrade(ctx, most, func(ctx context.Context, ws *rest.Socket) { attend(ctx, ws, p, in.Replay) })
		}}, nil
	})
}

// attend serves one client of a terminal.
func attend(ctx context.Context, ws *rest.Socket, p *process.Process, replay int) {
	ctx, cancel := context.WithCancel(ctx)
	out := p.Log().FollowBytes(replay)
	var wg sync.WaitGroup
	wg.Go(func() {
		showTerminal(ctx, ws, p, out)
		ws.Finish()
	})
	for {
		kind, data, err := ws.Receive()
		if err != nil {
			break
		}
		if err := takeFrame(ctx, ws, p, kind, data); err != nil {
			break
		}
	}
	cancel()
	// What is still being sent to a client that reads nothing is not waited for.
	_ = ws.Under.Close()
	wg.Wait()
}

// readyFrame and the following are what clients are sent as text.
type (
	readyFrame struct {
		ProcessID string `json:"processId"`
		Replay    int64  `json:"replay,omitempty"`
		Type      string `json:"type"`
	}
	exitFrame struct {
		ExitCode *int   `json:"exitCode"`
		Signal   string `json:"signal,omitempty"`
		Type     string `json:"type"`
	}
	// GapFrame says how many bytes of output were dropped.
	GapFrame struct {
		Bytes int64  `json:"bytes"`
		Type  string `json:"type"`
	}
	// ErrorFrame says why the terminal ends.
	ErrorFrame struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
)

// showTerminal sends what the terminal prints until the process has ended and
// all was sent, or the client has gone.
func showTerminal(ctx context.Context, ws *rest.Socket, p *process.Process, out *process.Reader) {
	if ws.SendJSON(readyFrame{p.Info().ID, out.Earlier(), "ready"}) != nil {
		return
	}
	buf := make([]byte, 0, terminalChunk)
	for {
		entries, gap, err := out.Next(ctx)
		if errors.Is(err, io.EOF) {
			exit := p.Info().Exit
			_ = ws.SendJSON(exitFrame{exit.Code, exit.Signal, "exit"})
			return
		}
		if err != nil {
			return
		}
		if gap.Bytes > 0 && ws.SendJSON(GapFrame{gap.Bytes, "gap"}) != nil {
			return
		}
		if sendOutput(ws, buf, entries) != nil {
			return
		}
	}
}

// sendOutput sends entries in as few messages as buf's capacity allows.
func sendOutput(ws *rest.Socket, buf []byte, entries []process.Entry) error {
	flush := func(data []byte) error {
		if len(data) == 0 {
			return nil
		}
		return ws.Send(websocket.BinaryMessage, data)
	}
	buf = buf[:0]
	for _, e := range entries {
		if len(buf)+len(e.Data) > cap(buf) {
			if err := flush(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if len(e.Data) >= cap(buf) {
			if err := flush(e.Data); err != nil {
				return err
			}
			continue
		}
		buf = append(buf, e.Data...)
	}
	return flush(buf)
}

// errLeave says that the client wants no more.
var errLeave = errors.New("the client closes the terminal")

// takeFrame handles a message of the client. It reports a bad message to the
// client; an error ends the connection.
func takeFrame(ctx context.Context, ws *rest.Socket, p *process.Process, kind int, data []byte) error {
	complain := func(message string) error { return ws.SendJSON(ErrorFrame{message, "error"}) }
	if kind != websocket.TextMessage {
		return complain("binary input is not supported; use text JSON frames")
	}
	f, err := parseTerminalFrame(data)
	if err != nil {
		return complain("invalid terminal frame: " + err.Error())
	}
	switch f.kind {
	case "close":
		return errLeave
	case "resize":
		err = p.Resize(f.cols, f.rows)
	default:
		ctx, cancel := context.WithTimeout(ctx, inputPatience)
		defer cancel()
		_, err = p.Write(ctx, f.input)
	}
	if large, ok := errors.AsType[*process.InputTooLargeError](err); ok {
		return complain(large.Error())
	}
	if err != nil {
		return complain(rest.Group{Problem: Problem}.ProblemOf(err, rest.Internal).Detail)
	}
	return nil
}

// terminalFrame is what a client of a terminal sends.
type terminalFrame struct {
	kind       string // "input", "resize" or "close"
	input      []byte
	cols, rows uint16
}

// parseTerminalFrame reads a client's text message.
func parseTerminalFrame(data []byte) (terminalFrame, error) {
	var raw struct {
		Type     string  `json:"type"`
		Data     *string `json:"data"`
		Encoding string  `json:"encoding"`
		Cols     *uint16 `json:"cols"`
		Rows     *uint16 `json:"rows"`
	}
	if err := errors.Join(rest.CheckText(data), jsonlimit.CheckBody(data)); err != nil {
		return terminalFrame{}, err
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return terminalFrame{}, fmt.Errorf("%s must be %s", wrong.Field, wantedType(wrong.Field))
		}
		return terminalFrame{}, err
	}
	f := terminalFrame{kind: raw.Type}
	switch raw.Type {
	case "close":
		return f, nil
	case "resize":
		if raw.Cols == nil || raw.Rows == nil {
			return terminalFrame{}, errors.New("resize needs cols and rows")
		}
		f.cols, f.rows = *raw.Cols, *raw.Rows
		return f, nil
	case "input":
		if raw.Data == nil {
			return terminalFrame{}, errors.New("input needs data")
		}
		var err error
		f.input, err = decodeInput(*raw.Data, raw.Encoding, "utf8")
		return f, err
	}
	return terminalFrame{}, fmt.Errorf("type must be input, resize or close, not %q", raw.Type)
}

func wantedType(field string) string {
	if field == "cols" || field == "rows" {
		return "a whole number from 0 to 65535"
	}
	return "a string"
}

// errEncoding names what input may be encoded as.
var errEncoding = errors.New("encoding must be one of: base64, utf8, text")

// decodeInput turns what a client typed into bytes. An empty encoding is that
// of the route.
func decodeInput(data, encoding, otherwise string) ([]byte, error) {
	if encoding == "" {
		encoding = otherwise
	}
	switch encoding {
	case "utf8", "text":
		return []byte(data), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("invalid base64 input: %w", err)
		}
		return b, nil
	}
	return nil, errEncoding
}
