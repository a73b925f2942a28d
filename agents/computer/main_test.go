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

// limit is how long anything may take that takes no time.
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
}

// connect serves a desktop over HTTP and connects a client to it.
func connect(t *testing.T, d computer.Desktop, cfg computer.Config) *agent {
	t.Helper()
	s, err := computer.NewServer(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return connectTo(t, &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client(), MaxRetries: -1})
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
	return &agent{t, session}
}

// answer is what a tool said.
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
				a.t.Errorf("%s is called %s", got.format, c.MIMEType)
			}
		}
	}
	return got
}

// must is call for what has to work and answer with a screenshot, unless the
// arguments say that it shall not.
func (a *agent) must(tool string, arguments args) answer {
	a.t.Helper()
	got := a.call(tool, arguments)
	_, told := arguments["screenshot"]
	if got.failed || (got.image == nil) != told {
		a.t.Fatalf("%s %v: failed %v, image %v: %s", tool, arguments, got.failed, got.image != nil, got.text)
	}
	return got
}

// pointer is where the pointer is on the screen.
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

func wants(t *testing.T, got answer, part string) {
	t.Helper()
	if !strings.Contains(got.text, part) {
		t.Errorf("%q does not say %q", got.text, part)
	}
}

// refuses calls a tool that must fail and say that.
func (a *agent) refuses(tool string, arguments args, part string) {
	a.t.Helper()
	got := a.call(tool, arguments)
	if !got.failed || !strings.Contains(got.text, part) {
		a.t.Errorf("%s %v: failed %v: %q does not say %q", tool, arguments, got.failed, got.text, part)
	}
}

// raw posts a body as no SDK would.
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

// listen listens at an address that was just given up.
func listen(t *testing.T, address string) (l net.Listener, err error) {
	t.Helper()
	poll(t, func() error {
		l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err
	})
	return l, err
}
