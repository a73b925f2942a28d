package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestDevToolsControl: a client of the DevTools protocol acts as the actor that its request
// names. While another API caller has control alone, it can look and not act. The route that
// stops the browser is refused, too.
func TestDevToolsControl(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := startReal(t, Config{}, `{}`)
	s.post(t, "/v1/desktop/browser/start", `{}`).want(t, 200)
	s.do(t, call{method: "POST", path: "/v1/desktop/control/take", body: `{}`, header: map[string]string{"Deskhand-Actor": "Ann"}}).want(t, 200)
	for name, refused := range map[string]bool{"Ann": false, "Bob": true} {
		conn := s.dial(t, "/v1/desktop/browser/devtools/browser/current", http.Header{"Authorization": {"Bearer " + s.Token()}, "Deskhand-Actor": {name}})
		ask := func(text string) string {
			t.Helper()
			if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
			_, answer, err := conn.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			return string(answer)
		}
		if answer := ask(`{"id":1,"method":"Browser.getVersion"}`); !strings.Contains(answer, "Chrome") {
			t.Errorf("%s: %s", name, answer)
		}
		answer := ask(`{"id":2,"method":"Target.createTarget","params":{"url":"about:blank"}}`)
		if strings.Contains(answer, "Ann has control") != refused || strings.Contains(answer, "targetId") == refused {
			t.Errorf("%s: %s", name, answer)
		}
	}
	stop := func(name string) answer {
		return s.do(t, call{method: "POST", path: "/v1/desktop/browser/stop", header: map[string]string{"Deskhand-Actor": name}})
	}
	stop("Bob").problem(t, 409, "control_held")
	stop("Ann").want(t, 200)
}

// TestDevToolsPlaces: the clients of tokens of other scopes leave places to other tokens, and to the
// server's own.
func TestDevToolsPlaces(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := startReal(t, Config{}, `{}`)
	s.post(t, "/v1/desktop/browser/start", `{"headless":true}`).want(t, 200)
	// connected returns how many of n clients of a token get an answer.
	connected := func(token string, n int) (got int) {
		for range n {
			conn := s.dial(t, "/v1/desktop/browser/devtools/browser/current", http.Header{"Authorization": {"Bearer " + token}})
			if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"method":"Browser.getVersion"}`)); err != nil {
				continue
			}
			if _, _, err := conn.ReadMessage(); err == nil {
				got++
			}
		}
		return got
	}
	_, ann := s.token(t, `{"scope":"control"}`)
	_, bob := s.token(t, `{"scope":"agent"}`)
	got := []int{connected(ann, 17), connected(bob, 9), connected(s.Token(), 9)}
	if want := []int{16, 8, 8}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v clients are connected, want %v", got, want)
	}
}
