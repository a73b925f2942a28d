package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/httpapi/internal/processes"
	"github.com/deskhand/deskhand/internal/jsonlimit"
	"github.com/deskhand/deskhand/internal/testx11"
)

// term is a client of a terminal.
type term struct {
	t      *testing.T
	conn   *websocket.Conn
	output bytes.Buffer // what was printed
	frames []string     // text frames not yet returned
	ready  string       // the first frame
}

// earlierOutput is the number of bytes of earlier output in the frame ready.
var earlierOutput = regexp.MustCompile(`"replay":[1-9][0-9]*,`)

// attach connects to a process's terminal and waits until it is ready.
func (s *testServer) attach(t *testing.T, id, query string) *term {
	t.Helper()
	c := &term{t: t, conn: s.dial(t, "/v1/processes/"+id+"/terminal/ws"+query, nil)}
	c.ready = c.frame()
	if got, want := earlierOutput.ReplaceAllString(c.ready, ""), fmt.Sprintf(`{"processId":%q,"type":"ready"}`, id); got != want {
		t.Fatalf("first frame = %s, want %s", got, want)
	}
	if c.output.Len() > 0 {
		t.Fatalf("output before the terminal was ready: %q", c.output.String())
	}
	return c
}

// read takes in one message.
func (c *term) read() error {
	kind, data, err := c.conn.ReadMessage()
	switch {
	case err != nil:
	case kind == websocket.BinaryMessage:
		c.output.Write(data)
	default:
		c.frames = append(c.frames, string(data))
	}
	return err
}

// frame waits for the next text frame.
func (c *term) frame() string {
	c.t.Helper()
	for len(c.frames) == 0 {
		if err := c.read(); err != nil {
			c.t.Fatalf("while waiting for a frame: %v; output %q", err, c.output.String())
		}
	}
	f := c.frames[0]
	c.frames = c.frames[1:]
	return f
}

// until waits until that was printed.
func (c *term) until(text string) {
	c.t.Helper()
	for !strings.Contains(c.output.String(), text) {
		if err := c.read(); err != nil {
			c.t.Fatalf("while waiting for %q: %v; output %q, frames %q", text, err, c.output.String(), c.frames)
		}
	}
}

func (c *term) send(frame string) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		c.t.Fatal(err)
	}
}

// tty starts a process with a terminal.
func (s *testServer) tty(t *testing.T, script, more string) string {
	t.Helper()
	return s.create(t, shell(script, `,"tty":true`+more))["id"].(string)
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *testServer{
		"served":  func(t *testing.T) *testServer { t.Helper(); return serve(t, Config{}) },
		"handler": func(t *testing.T) *testServer { t.Helper(); return embedded(t, Config{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			id := s.tty(t, "stty size; while read line; do echo got $line; stty size; done; exit 5", "")
			eventually(t, "the first size", func() bool {
				return strings.Contains(string(s.get(t, "/v1/processes/"+id+"/logs").body), base64.StdEncoding.EncodeToString([]byte("24 80\r\n")))
			})
			c := s.attach(t, id, "?replay=100000")
			c.until("24 80\r\n")
			fresh := s.attach(t, id, "")
			c.send(`{"type":"resize","cols":100,"rows":40}`)
			c.send(`{"type":"input","data":"hällo\n"}`)
			c.until("got hällo\r\n40 100\r\n")
			fresh.until("got hällo\r\n40 100\r\n")
			if strings.Contains(fresh.output.String(), "24 80") {
				t.Error("what was printed before is sent without replay")
			}
			tail := s.attach(t, id, "?replay=4")
			tail.send(`{"type":"input","data":"` + base64.StdEncoding.EncodeToString([]byte("again\n")) + `","encoding":"base64"}`)
			tail.until("got again\r\n")
			if tail.ready != fmt.Sprintf(`{"processId":%q,"replay":4,"type":"ready"}`, id) {
				t.Errorf("the first frame with a replay of four bytes is %s", tail.ready)
			}
			if !strings.HasPrefix(tail.output.String(), "00\r\nagain\r\n") {
				t.Errorf("replay of four bytes begins with %q", tail.output.String())
			}
			s.post(t, "/v1/processes/"+id+"/terminal/resize", `{"cols":0,"rows":0}`).want(t, 200)
			c.send(`{"type":"input","data":"\u0004"}`) // the end of the input
			for _, c := range []*term{c, fresh, tail} {
				if got := c.frame(); got != `{"exitCode":5,"type":"exit"}` {
					t.Errorf("last frame = %s", got)
				}
				if err := c.read(); !websocket.IsCloseError(err, websocket.CloseNoStatusReceived) {
					t.Errorf("after the exit: %v, want an empty close frame", err)
				}
				if strings.Contains(c.output.String(), "I/O error") {
					t.Errorf("output tells of the terminal's own end: %q", c.output.String())
				}
			}
			late := s.attach(t, id, "")
			if got := late.frame(); got != `{"exitCode":5,"type":"exit"}` {
				t.Errorf("frame after the end = %s", got)
			}
		})
	}
}

func TestTerminalFrames(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id := s.tty(t, "stty -echo; echo ready; exec cat", "")
	c := s.attach(t, id, "?replay=1000")
	c.until("ready")
	if err := c.conn.WriteMessage(websocket.BinaryMessage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("[", jsonlimit.MaxDepth) + strings.Repeat("]", jsonlimit.MaxDepth)
	for _, tt := range []struct{ send, want string }{
		{"", "binary input is not supported; use text JSON frames"},
		{"{", "invalid terminal frame: unexpected end of JSON input"},
		{`[]`, "invalid terminal frame: "},
		{`{}`, `invalid terminal frame: type must be input, resize or close, not ""`},
		{`{"type":"hello"}`, `invalid terminal frame: type must be input, resize or close, not "hello"`},
		{`{"type":"input"}`, "invalid terminal frame: input needs data"},
		{`{"type":"input","data":7}`, "invalid terminal frame: data must be a string"},
		{`{"type":"input","data":"%","encoding":"base64"}`, "invalid terminal frame: invalid base64 input"},
		{`{"type":"input","data":"x","encoding":"hex"}`, "invalid terminal frame: encoding must be one of: base64, utf8, text"},
		{`{"type":"close","more":` + deep + `}`, "invalid terminal frame: is nested too deep"},
		{`{"type":"resize","cols":1}`, "invalid terminal frame: resize needs cols and rows"},
		{`{"type":"resize","cols":70000,"rows":1}`, "invalid terminal frame: cols must be a whole number from 0 to 65535"},
		{`{"type":"input","data":"` + strings.Repeat("x", 65537) + `"}`, "input payload exceeds maxInputBytesPerRequest (65536)"},
	} {
		if tt.send != "" {
			c.send(tt.send)
		}
		var got processes.ErrorFrame
		if err := json.Unmarshal([]byte(c.frame()), &got); err != nil || got.Type != "error" || !strings.Contains(got.Message, tt.want) {
			t.Errorf("answer to %.40q = %+v, %v, want %q", tt.send, got, err, tt.want)
		}
	}
	c.send(`{"type":"input","data":"still here\n"}`)
	c.until("still here")
	c.send(`{"type":"close"}`)
	for {
		if err := c.read(); err != nil {
			break
		}
	}
	if p := s.get(t, "/v1/processes/"+id).json(t); p["status"] != "running" {
		t.Errorf("closing the socket ended the process: %v", p)
	}
}

func TestTerminalSignal(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id := s.tty(t, "echo ready; exec sleep 3600", `,"cols":33,"rows":11`)
	c := s.attach(t, id, "?replay=1000")
	c.until("ready")
	c.send(`{"type":"input","data":"\u0003"}`) // Ctrl-C
	if got := c.frame(); got != `{"exitCode":null,"signal":"SIGINT","type":"exit"}` {
		t.Errorf("last frame = %s", got)
	}
}

// TestTerminalKeepsUp: a reader that keeps up gets all of it.
func TestTerminalKeepsUp(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	file := filepath.Join(t.TempDir(), "data")
	want := bytes.Repeat([]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n"), 8<<20/64)
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	s.post(t, "/v1/processes/config", strings.Replace(limits(64, 30000, 1<<20), `"maxLogBytesPerProcess":1048576`, `"maxLogBytesPerProcess":67108864`, 1)).want(t, 200)
	id := s.tty(t, "stty raw -echo; printf ready; read x; exec cat "+file, "")
	c := s.attach(t, id, "?replay=1000")
	c.until("ready")
	c.output.Reset()
	c.send(`{"type":"input","data":"\n"}`)
	if got := c.frame(); got != `{"exitCode":0,"type":"exit"}` {
		t.Fatalf("frame = %s", got)
	}
	if !bytes.Equal(c.output.Bytes(), want) {
		t.Errorf("%d bytes arrived, %d were printed, or they differ", c.output.Len(), len(want))
	}
}

// TestTerminalStalledReader: one who reads nothing holds up neither the program
// nor other clients, and is told what was missed.
func TestTerminalStalledReader(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	const printed = 24 << 20
	s.post(t, "/v1/processes/config", strings.Replace(limits(64, 30000, 1<<20), `"maxLogBytesPerProcess":1048576`, `"maxLogBytesPerProcess":262144`, 1)).want(t, 200)
	id := s.tty(t, fmt.Sprintf("stty raw -echo; printf ready; read x; head -c %d /dev/zero; printf end; read y", printed), "")
	stalled := s.attach(t, id, "?replay=1000")
	stalled.until("ready")
	watching := s.attach(t, id, "")
	watching.send(`{"type":"input","data":"\n"}`)
	watching.until("end")

	total, gaps := int64(stalled.output.Len()-len("ready")), int64(0)
	stalled.output.Reset()
	for !strings.Contains(stalled.output.String(), "end") {
		if err := stalled.read(); err != nil {
			t.Fatal(err)
		}
		for _, f := range stalled.frames {
			var gap processes.GapFrame
			if err := json.Unmarshal([]byte(f), &gap); err != nil || gap.Type != "gap" || gap.Bytes <= 0 {
				t.Fatalf("frame = %s", f)
			}
			gaps += gap.Bytes
		}
		stalled.frames = nil
	}
	total += int64(stalled.output.Len())
	if gaps == 0 || total+gaps != printed+int64(len("end")) {
		t.Errorf("got %d bytes and was told that %d are missing, of %d", total, gaps, printed)
	}
}

// TestTerminalLeavers: clients that vanish leave nothing behind.
func TestTerminalLeavers(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id := s.tty(t, "while :; do echo y; sleep 0.01; done", "")
	for range 10 {
		c := s.attach(t, id, "")
		c.until("y")
		_ = c.conn.NetConn().Close()
	}
	// The leak check of the package sees the rest.
	s.do(t, call{method: http.MethodPost, path: "/v1/processes/" + id + "/kill?waitMs=10000"}).want(t, 200)
}

func TestProcessOnDesktop(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "xdpyinfo")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	home := s.get(t, "/v1/desktop/display/info").want(t, 200).json(t)["home"]
	run := s.post(t, "/v1/processes/run", shell("xdpyinfo | grep dimensions; echo $HOME; echo $DBUS_SESSION_BUS_ADDRESS", `,"desktop":"main"`)).want(t, 200).json(t)
	if out := run["stdout"].(string); !strings.Contains(out, "640x480") || !strings.Contains(out, fmt.Sprintf("\n%v\nunix:", home)) {
		t.Errorf("on the desktop: %q %q", out, run["stderr"])
	}
	s.create(t, `{"command":"xterm","args":["-T","mine"],"desktop":"main"}`)
	eventually(t, "the window", func() bool {
		return strings.Contains(string(s.get(t, "/v1/desktop/windows").want(t, 200).body), `"mine"`)
	})

	owned := map[string]string{}
	for _, p := range s.get(t, "/v1/processes?owner=desktop").want(t, 200).json(t)["processes"].([]any) {
		p := p.(map[string]any)
		if p["status"] == "running" {
			owned[filepath.Base(p["command"].(string))] = p["id"].(string)
		}
	}
	for _, name := range []string{"Xvfb", "openbox", "dbus-daemon"} {
		if owned[name] == "" {
			t.Errorf("%s is not listed among the desktop's processes %v", name, owned)
		}
	}
	s.get(t, "/v1/processes/"+owned["openbox"]+"/logs").want(t, 200)
	followed := s.follow(t.Context(), t, "/v1/processes/"+owned["openbox"]+"/logs?follow=true", nil)
	s.do(t, call{method: http.MethodPost, path: "/v1/processes/" + owned["openbox"] + "/kill?waitMs=10000"}).want(t, 200)
	deadline := time.After(time.Minute)
	for open := true; open; {
		select {
		case _, open = <-followed:
		case <-deadline:
			t.Fatal("following the log does not end with the process")
		}
	}
	eventually(t, "the desktop's recovery", func() bool {
		return s.get(t, "/v1/desktop/status").want(t, 200).json(t)["state"] == "active"
	})
	s.post(t, "/v1/processes/"+owned["Xvfb"]+"/input", `{"data":""}`).problem(t, 409, "conflict")
	s.get(t, "/v1/processes/"+owned["Xvfb"]+"/terminal/ws").problem(t, 409, "conflict")
}
