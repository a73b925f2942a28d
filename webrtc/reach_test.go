package webrtc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// signalingPage connects as the published clients do.
const signalingPage = `<!doctype html><video autoplay muted playsinline></video><script>
const begun = performance.now(), socket = new WebSocket("ws://" + location.host + "/signaling");
const errors = [], send = (event, payload) => socket.send(JSON.stringify({ event, payload }));
let pc, pending = Promise.resolve(), took = 0, way;
async function take({ event, payload }) {
	if (event === "signal/provide") {
		pc = new RTCPeerConnection({ iceServers: payload.iceservers });
		pc.ontrack = (e) => {
			const video = document.querySelector("video");
			video.srcObject = e.streams[0];
			video.requestVideoFrameCallback(async () => {
				const at = performance.now() - begun;
				way = await used();
				took = at;
			});
		};
		pc.onicecandidate = (e) => { if (e.candidate) send("signal/candidate", e.candidate.toJSON()); };
		await pc.setRemoteDescription({ type: "offer", sdp: payload.sdp });
		await pc.setLocalDescription();
		send("signal/answer", { sdp: pc.localDescription.sdp });
	}
	if (event === "signal/candidate") await pc.addIceCandidate(payload);
}
socket.onmessage = (e) => { pending = pending.then(() => take(JSON.parse(e.data))).catch((err) => { errors.push(String(err)); }); };
socket.onopen = () => { send("control/request"); send("signal/request", { video: {} }); };
async function used() {
	const stats = await pc.getStats();
	const transport = [...stats.values()].find((s) => s.type === "transport");
	return stats.get(stats.get(transport.selectedCandidatePairId).remoteCandidateId).protocol;
}
</script>`

// wsConn is a WebSocket as a Conn.
type wsConn struct{ ws *websocket.Conn }

func (c wsConn) Receive(ctx context.Context) ([]byte, error) {
	_, m, err := c.ws.Read(ctx)
	return m, err
}

func (c wsConn) Send(ctx context.Context, m []byte) error {
	return c.ws.Write(ctx, websocket.MessageText, m)
}

// site serves the page and the signalling on a port that is shared with viewers.
func site(t *testing.T, s *Streamer, tcp *TCP) (port int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, signalingPage)
	})
	mux.HandleFunc("/signaling", func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		if err := s.ServeSignaling(r.Context(), wsConn{ws}, ViewerOptions{Host: r.Host, TCP: true, Remote: r.RemoteAddr}); err != nil {
			t.Log(err)
		}
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(tcp.Share(ln))
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return ln.Addr().(*net.TCPAddr).Port
}

// TestBrowserReaches checks by which addresses Chromium connects. Only the browser resolves the
// name of the test, which ends with a dot.
func TestBrowserReaches(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium", "xterm")
	d := startDesktop(t, desktop.Config{})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		udp  int
		want string
	}{
		{"127.0.0.1", 0, "udp"},
		{"127.0.0.1", -1, "tcp"},
		{"localhost", -1, "tcp"},
		{"desk.test", -1, "tcp"},
	} {
		t.Run(fmt.Sprint(c.host, " by ", c.want), func(t *testing.T) {
			t.Parallel()
			var tcp TCP
			s := stream(t, d, Config{Network: openNetwork(t, NetworkConfig{UDPPort: c.udp, TCP: &tcp})})
			url := fmt.Sprintf("http://%s:%d/", c.host, site(t, s, &tcp))
			ctx := testbrowser.Open(t, url, chromedp.Flag("host-resolver-rules", "MAP desk.test 127.0.0.1, MAP desk.test. 127.0.0.1"))
			testbrowser.Holds(ctx, t, "took > 0")
			if got := testbrowser.Evaluate[string](ctx, t, "way"); got != c.want {
				t.Errorf("the picture comes by %s, want %s", got, c.want)
			}
			if got := testbrowser.Evaluate[string](ctx, t, "errors.join()"); got != "" {
				t.Errorf("the page says %s", got)
			}
			t.Logf("the first picture arrived after %.0f ms", testbrowser.Evaluate[float64](ctx, t, "took"))
			if d := s.Diagnose(t.Context(), Inquiry{}); len(d.Viewers) != 1 || !strings.HasPrefix(d.Viewers[0].Far, c.want) {
				t.Errorf("diagnosis: %+v", d.Viewers)
			}
		})
	}
}
