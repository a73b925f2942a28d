package deploytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// proxied is a server behind a proxy.
type proxied struct {
	*client
	server *server
}

// check tries what a proxy can break.
func (p proxied) check(t *testing.T) {
	t.Helper()
	p.call(t, http.MethodPost, "/v1/desktop/start", `{"width":640,"height":480}`)
	p.checkHTTP(t)
	p.checkClient(t)
	p.checkEvents(t)
	p.checkTerminal(t)
	p.checkPictures(t)
	p.checkFiles(t, 8<<20)
}

// checkHTTP wants the page by HTTP/2.
func (p proxied) checkHTTP(t *testing.T) {
	t.Helper()
	resp := p.do(t, http.MethodGet, "/ui/", nil)
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || !bytes.Contains(page, []byte("<!doctype html>")) {
		t.Errorf("the page is %s %s, %v:\n%s", resp.Proto, resp.Status, err, page)
	}
}

// checkClient wants the server to know the client's address and the page's host,
// and not to believe those that the client made up.
func (p proxied) checkClient(t *testing.T) {
	t.Helper()
	const id = "of-the-client"
	p.do(t, http.MethodGet, "/livez", nil, "X-Request-Id", id, "X-Forwarded-For", "203.0.113.9")
	var line string
	until(t, "the request is in the server's log", func() bool {
		for line = range strings.Lines(p.server.String()) {
			if strings.Contains(line, "request="+id) {
				return true
			}
		}
		return false
	})
	forged := p.do(t, http.MethodGet, "/v1/desktop/stream/diagnose", nil, "X-Forwarded-Host", "forged.invalid")
	var told struct{ Request struct{ Host string } }
	if err := json.NewDecoder(forged.Body).Decode(&told); err != nil || told.Request.Host != p.base.Host {
		t.Errorf("the server takes itself for %q, want %q; %v", told.Request.Host, p.base.Host, err)
	}
	if !strings.Contains(line, "client=127.0.0.1 ") {
		t.Errorf("the server's log has another client than 127.0.0.1: %s", line)
	}
}

// checkEvents wants an event to arrive before a heartbeat follows it, which is
// after 15 s.
func (p proxied) checkEvents(t *testing.T) {
	t.Helper()
	resp := p.do(t, http.MethodGet, "/v1/desktop/events", nil)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("events: %s", resp.Status)
	}
	all := lines(resp.Body)
	p.call(t, http.MethodPost, "/v1/desktop/clipboard", `{"text":"told"}`)
	deadline := time.After(10 * time.Second)
	for {
		select {
		case line, open := <-all:
			if !open {
				t.Fatal("the event stream ended")
			}
			if strings.Contains(line, "clipboard") {
				return
			}
		case <-deadline:
			t.Fatal("no event arrived within 10 s")
		}
	}
}

// terminal starts a process with a terminal that prints each line twice.
func (p proxied) terminal(t *testing.T) *websocket.Conn {
	t.Helper()
	created := p.call(t, http.MethodPost, "/v1/processes", `{"command":"cat","tty":true}`)
	return p.socket(t, fmt.Sprintf("/v1/processes/%s/terminal/ws", created["id"]))
}

func (p proxied) checkTerminal(t *testing.T) {
	t.Helper()
	p.echo(t, p.terminal(t), "through the proxy")
}

// echo wants a terminal to print a line that is typed into it.
func (p proxied) echo(t *testing.T, ws *websocket.Conn, text string) {
	t.Helper()
	frame, err := json.Marshal(map[string]string{"type": "input", "data": text + "\n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Write(t.Context(), websocket.MessageText, frame); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	receive(t, ws, "echo in the terminal", func(kind websocket.MessageType, data []byte) bool {
		if kind == websocket.MessageBinary {
			printed.Write(data)
		}
		return strings.Count(printed.String(), text) == 2
	})
}

// checkPictures wants a picture over a WebSocket, as the page gets it where no
// media comes through.
func (p proxied) checkPictures(t *testing.T) {
	t.Helper()
	const dataFlag = 0x80 // not a picture
	receive(t, p.socket(t, "/v1/desktop/stream/video"), "picture", func(kind websocket.MessageType, data []byte) bool {
		return kind == websocket.MessageBinary && data[0]&dataFlag == 0
	})
}

// checkFiles sends a file to the server and back.
func (p proxied) checkFiles(t *testing.T, size int) {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	path := "/v1/fs/file?path=" + filepath.Join(t.TempDir(), "file")
	if resp := p.do(t, http.MethodPut, path, bytes.NewReader(content)); resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("upload of %d bytes: %s: %s", size, resp.Status, text)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, p.do(t, http.MethodGet, path, nil).Body)
	if err != nil || int(n) != size || [32]byte(sum.Sum(nil)) != sha256.Sum256(content) {
		t.Errorf("download: %d of %d bytes came, %v", n, size, err)
	}
}

// view opens the page in a browser and waits until it shows the desktop.
// surface is video if the picture comes by WebRTC, canvas if over a WebSocket.
func (p proxied) view(t *testing.T, surface string) {
	t.Helper()
	ctx := testbrowser.Open(t, p.base.String()+"/?token="+p.token, chromedp.Flag("ignore-certificate-errors", true))
	testbrowser.Holds(ctx, t, `document.body.dataset.state === "live"`)
	testbrowser.Holds(ctx, t, fmt.Sprintf(`document.querySelector("#frame").dataset.surface === %q`, surface))
}

// verdict waits until the server says how its viewers are connected.
func (p proxied) verdict(t *testing.T, want string) {
	t.Helper()
	var got string
	defer func() { t.Logf("verdict: %s", got) }()
	until(t, "the verdict is "+want, func() bool {
		got, _ = p.call(t, http.MethodGet, "/v1/desktop/stream/diagnose", "")["verdict"].(string)
		return strings.Contains(got, want)
	})
}
