package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// typingTerminal is a terminal on the desktop that copies the lines typed into it
// to a file.
func typingTerminal(t *testing.T, s *testServer) (path string) {
	t.Helper()
	testx11.Require(t, "xterm")
	path = filepath.Join(t.TempDir(), "typed")
	s.post(t, "/v1/desktop/launch", fmt.Sprintf(`{"app":"xterm","args":["-e","sh","-c","cat > %s"],"wait":true}`, path)).want(t, 200)
	eventually(t, "the terminal runs its program", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	return path
}

// longTyping takes minutes.
var longTyping = `{"text":"` + strings.Repeat(`x\n`, 2000) + `","delayMs":100}`

// begins waits until typing that goes to a file has begun, which start does.
func begins(t *testing.T, path string, start func()) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	go start()
	eventually(t, "typing begins", func() bool { return size() > before })
}

// TestTypingEndsWithItsRequest: typing ends when its client disconnects.
func TestTypingEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{}`)
	path := typingTerminal(t, s)
	mounted := httptest.NewServer(s.Handler())
	defer mounted.Close()
	for name, url := range map[string]string{"Serve": s.url, "Handler": mounted.URL} {
		client := &testServer{s.Server, url, s.client}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		begins(t, path, func() { left <- client.try(ctx, call{path: "/v1/desktop/keyboard/type", body: longTyping}).err })
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: the request that was given up: %v", name, err)
		}
		s.post(t, "/v1/desktop/mouse/move", `{"x":10,"y":10}`).want(t, 200)
	}
}

// TestTypingIsEnded by a release of all input, and by control that is taken: its
// answer says how far it came.
func TestTypingIsEnded(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{}`)
	path := typingTerminal(t, s)
	for _, test := range []struct {
		path, body, code string
	}{
		{"/v1/desktop/input/release", "", "desktop_input_failed"},
		{"/v1/desktop/control/take", `{"force":true}`, "control_held"},
	} {
		typed := make(chan answer, 1)
		begins(t, path, func() {
			typed <- s.try(t.Context(), call{path: "/v1/desktop/keyboard/type", body: longTyping, header: map[string]string{"Deskhand-Actor": "robot"}})
		})
		s.post(t, test.path, test.body).want(t, 200)
		p := (<-typed).problem(t, http.StatusConflict, test.code)
		details, _ := p["details"].(map[string]any)
		if progress, _ := details["progress"].(string); !strings.HasSuffix(progress, "of 4000 characters were typed") {
			t.Errorf("%s: typing was answered %v, want how far it came", test.path, p)
		}
		s.post(t, "/v1/desktop/mouse/move", `{"x":10,"y":10}`).want(t, 200)
	}
}

// TestLongCallIsAnswered: watching a connection takes nothing from its answer.
func TestLongCallIsAnswered(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{}`)
	path := typingTerminal(t, s)
	for range 2 {
		s.post(t, "/v1/desktop/keyboard/type", `{"text":"0123456789\n","delayMs":100}`).want(t, 200)
	}
	eventually(t, "what was typed is there", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && string(text) == "0123456789\n0123456789\n"
	})
}
