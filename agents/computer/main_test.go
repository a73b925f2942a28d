package computer_test

import (
	"bytes"
	"context"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// limit bounds the wait for anything that is fast.
const limit = 30 * time.Second

func TestMain(m *testing.M) {
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon")
	goleak.VerifyTestMain(m)
}

func startDesktop(t *testing.T, cfg desktop.Config) *desktop.Desktop {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	d, err := desktop.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// agent is an MCP client.
type agent struct {
	t       *testing.T
	session *mcp.ClientSession
	url     string // of the server; empty: it is not served over HTTP
}

// connect serves a desktop over HTTP and connects a client to it.
func connect(t *testing.T, d computer.Desktop, cfg computer.Config) *agent {
	t.Helper()
	s, err := computer.NewServer(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := desktop.Actor{Kind: desktop.ActorAPI, Name: r.URL.Query().Get("actor")}
		s.ServeHTTP(w, r.WithContext(desktop.WithActor(r.Context(), by)))
	}))
	t.Cleanup(web.Close)
	a := connectTo(t, &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client(), MaxRetries: -1})
	a.url = web.URL
	return a
}

func connectTo(t *testing.T, transport mcp.Transport) *agent {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return &agent{t: t, session: session}
}

// answer is the result of a tool.
type answer struct {
	text   string
	image  image.Image // nil: none
	format string
	bytes  int
	failed bool
}

type args = map[string]any

func (a *agent) call(tool string, arguments args) answer {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*limit)
	defer cancel()
	r, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	got := answer{failed: r.IsError}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			got.text += c.Text
		case *mcp.ImageContent:
			if got.image, got.format, err = image.Decode(bytes.NewReader(c.Data)); err != nil {
				a.t.Fatal(err)
			}
			got.bytes = len(c.Data)
			if c.MIMEType != "image/"+got.format {
				a.t.Errorf("%s has the type %s", got.format, c.MIMEType)
			}
		}
	}
	return got
}

// must is like call but fails the test if the call fails, or if it has no screenshot though
// the arguments do not exclude it.
func (a *agent) must(tool string, arguments args) answer {
	a.t.Helper()
	got := a.call(tool, arguments)
	_, excluded := arguments["screenshot"]
	if got.failed || (got.image == nil) != excluded {
		a.t.Fatalf("%s %v: failed %v, image %v: %s", tool, arguments, got.failed, got.image != nil, got.text)
	}
	return got
}

// pointer returns the position of the pointer on the screen.
func pointer(t *testing.T, d *desktop.Desktop) desktop.Point {
	t.Helper()
	p, err := d.Pointer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.Point
}

// xterm starts a terminal whose background is pink, and returns its window.
func xterm(t *testing.T, d *desktop.Desktop, command ...string) desktop.Window {
	t.Helper()
	testx11.Require(t, "xterm")
	arguments := append([]string{"-bg", "#ff00ff", "-fg", "#ffffff", "-geometry", "60x20+100+100", "-fs", "10", "-fa", "monospace", "-e"}, command...)
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: arguments, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.FocusWindow(t.Context(), app.Window)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// poll calls f until it returns nil.
func poll(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// wants checks that a result has a text.
func wants(t *testing.T, got answer, part string) {
	t.Helper()
	if !strings.Contains(got.text, part) {
		t.Errorf("%q does not contain %q", got.text, part)
	}
}

// refuses calls a tool and checks that it fails with a text.
func (a *agent) refuses(tool string, arguments args, part string) {
	a.t.Helper()
	got := a.call(tool, arguments)
	if !got.failed || !strings.Contains(got.text, part) {
		a.t.Errorf("%s %v: failed %v: %q does not contain %q", tool, arguments, got.failed, got.text, part)
	}
}

// raw sends a request that the SDK would not send.
func raw(t *testing.T, h http.Handler, method, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://example.com/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// listen listens at an address that was just released.
func listen(t *testing.T, address string) (l net.Listener, err error) {
	t.Helper()
	poll(t, func() error {
		l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err
	})
	return l, err
}
