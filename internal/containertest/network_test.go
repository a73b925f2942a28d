package containertest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// The networks of TestTranslatedNetwork: a server in a container, the machine
// around it, which forwards a port as docker run -p does, and a client that
// reaches nothing but that machine.
const (
	machineInside  = "10.77.0.1"
	serverInside   = "10.77.0.2"
	machineOutside = "198.51.100.1"
	clientOutside  = "198.51.100.2"
	publishedPort  = "8080"
	serverPort     = "2468"
	mediaPort      = "59050"
)

// stageLimit is how long a stage may take.
const stageLimit = 30 * time.Minute

// A test runs itself again in other namespaces; the environment says as what.
const (
	stageVariable  = "DESKHAND_TEST_STAGE" // "", machine or client
	binaryVariable = "DESKHAND_TEST_BINARY"
	wantVariable   = "DESKHAND_TEST_WANT" // by what the picture must come: udp or tcp
)

// TestTranslatedNetwork wants the picture to reach a client that reaches the
// page, although neither knows of the address translation between them and no
// flag tells of it.
func TestTranslatedNetwork(t *testing.T) {
	testx11.Require(t, "unshare", "nsenter", "ip", "Xvfb", "openbox", "dbus-daemon", "chromium")
	switch os.Getenv(stageVariable) {
	case "machine":
		runMachine(t)
		return
	case "client":
		runClient(t)
		return
	}
	if out, err := exec.Command("unshare", "-rn", "ip", "link", "add", "name", "near", "type", "veth", "peer", "name", "far").CombinedOutput(); err != nil {
		t.Skipf("no networks can be made here: %v: %s", err, out)
	}
	again(t, "machine", []string{binaryVariable + "=" + buildServer(t)}, "unshare", "-rn")
}

// again runs the test, which must have subtests, as another stage, behind the words
// of wrapper. The stage engine has subtests that -run chooses.
func again(t *testing.T, stage string, env []string, wrapper ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	pattern := "^" + test + "$"
	if _, subtests, found := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); found && stage == "engine" {
		pattern += "/" + subtests
	}
	words := append(slices.Clone(wrapper), self, "-test.run", pattern, "-test.v", "-test.timeout", stageLimit.String())
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), stageVariable+"="+stage), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") || !strings.Contains(string(out), "--- PASS: "+test+"/") {
		t.Errorf("as %s: %v\n%s", stage, err, out)
		return
	}
	t.Logf("as %s:\n%s", stage, out)
}

// run runs a command to its end.
func run(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// namespace makes a network that is joined to this one, for as long as the test
// runs, and returns the words that run a command in it.
func namespace(t *testing.T, link, here, there string) []string {
	t.Helper()
	holder := exec.Command("unshare", "-n", "cat")
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = holder.Wait()
	})
	pid := strconv.Itoa(holder.Process.Pid)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	poll(t, startLimit, "the network is there", func() (bool, string) {
		ns, err := os.Readlink("/proc/" + pid + "/ns/net")
		return err == nil && ns != own, fmt.Sprint(ns, err)
	})
	inside := []string{"nsenter", "-t", pid, "-n", "--preserve-credentials"}
	in := func(words ...string) { run(t, append(inside, words...)...) }
	run(t, "ip", "link", "add", "name", link, "type", "veth", "peer", "name", "eth0", "netns", pid)
	run(t, "ip", "addr", "add", here+"/24", "dev", link)
	run(t, "ip", "link", "set", link, "up")
	in("ip", "addr", "add", there+"/24", "dev", "eth0")
	in("ip", "link", "set", "eth0", "up")
	in("ip", "link", "set", "lo", "up")
	return inside
}

// runMachine is the machine around the container.
func runMachine(t *testing.T) {
	t.Helper()
	run(t, "ip", "link", "set", "lo", "up")
	container := namespace(t, "inside", machineInside, serverInside)
	client := namespace(t, "outside", machineOutside, clientOutside)
	startInside(t, container)
	forwardTCP(t, net.JoinHostPort(machineOutside, publishedPort), net.JoinHostPort(serverInside, serverPort))
	t.Run("only the page is published", func(t *testing.T) {
		again(t, "client", []string{wantVariable + "=tcp"}, client...)
	})
	forwardUDP(t, net.JoinHostPort(machineOutside, mediaPort), net.JoinHostPort(serverInside, mediaPort))
	t.Run("the port for media is, too", func(t *testing.T) {
		again(t, "client", []string{wantVariable + "=udp"}, client...)
	})
}

// token is that of the server in the container.
const token = "the-token-of-this-test"

// startInside runs the server in the container until the test ends.
func startInside(t *testing.T, inside []string) {
	t.Helper()
	words := append(append([]string{}, inside...), os.Getenv(binaryVariable), "server", "--host", "0.0.0.0", "--port", serverPort,
		"--token", token, "--state-dir", t.TempDir())
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := new(testlog.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", out)
		}
	})
	poll(t, startLimit, "the server is ready", func() (bool, string) {
		conn, err := net.Dial("tcp", net.JoinHostPort(serverInside, serverPort))
		if err != nil {
			return false, err.Error() + "\n" + out.String()
		}
		return conn.Close() == nil, ""
	})
}

// forwardTCP is what docker-proxy, ssh -L and the like do.
func forwardTCP(t *testing.T, from, to string) string {
	t.Helper()
	ln, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	work.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			work.Go(func() { join(ctx, near, to) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		work.Wait()
	})
	return ln.Addr().String()
}

// join connects a connection to an address until one of them ends.
func join(ctx context.Context, near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = near.Close()
		_ = far.Close()
	})
	defer stop()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = near.Close()
			_ = far.Close()
		})
	}
	both.Wait()
}

// forwardUDP forwards datagrams, and those that come back.
func forwardUDP(t *testing.T, from, to string) {
	t.Helper()
	front, err := net.ListenPacket("udp", from)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	backs := map[string]net.Conn{}
	work.Go(func() {
		buf := make([]byte, 65536)
		for {
			n, client, err := front.ReadFrom(buf)
			if err != nil {
				break
			}
			back := backs[client.String()]
			if back == nil {
				if back, err = net.Dial("udp", to); err != nil {
					continue
				}
				backs[client.String()] = back
				work.Go(func() {
					buf := make([]byte, 65536)
					for {
						n, err := back.Read(buf)
						if err != nil {
							return
						}
						_, _ = front.WriteTo(buf[:n], client)
					}
				})
			}
			_, _ = back.Write(buf[:n])
		}
		for _, back := range backs {
			_ = back.Close()
		}
	})
	t.Cleanup(func() {
		_ = front.Close()
		work.Wait()
	})
}

// runClient opens the page like a user.
func runClient(t *testing.T) {
	t.Helper()
	published := net.JoinHostPort(machineOutside, publishedPort)
	ask(t, http.MethodPost, "http://"+published+"/v1/desktop/start", `{"width":640,"height":480}`)
	want := os.Getenv(wantVariable)
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort(serverInside, serverPort), time.Second); err == nil {
		_ = conn.Close()
		t.Fatal("the container is reached without the forwarded port, so that nothing is shown")
	}
	t.Run("by the published port", func(t *testing.T) {
		port := map[string]string{"tcp": publishedPort, "udp": mediaPort}[want]
		watch(t, published, want, net.JoinHostPort(machineOutside, port))
	})
	if want == "tcp" { // else the way by UDP is found through the tunnel, too
		t.Run("through a tunnel", func(t *testing.T) {
			// As by ssh -L 127.0.0.1:0:server:2468.
			tunnel := forwardTCP(t, "127.0.0.1:0", published)
			_, port, err := net.SplitHostPort(tunnel)
			if err != nil {
				t.Fatal(err)
			}
			watch(t, net.JoinHostPort("localhost", port), "tcp", tunnel)
		})
	}
	t.Run("in a browser", func(t *testing.T) {
		testbrowser.Open(t, "http://"+published+"/ui/?token="+token)
		waitVerdict(t, published, want)
	})
	t.Run("in a browser that uses the STUN server it is told", func(t *testing.T) {
		testbrowser.Evaluate[bool](testbrowser.Open(t, "http://"+published+"/livez"), t, "("+sdkViewer+")("+strconv.Quote(token)+")")
		waitVerdict(t, published, want)
	})
	t.Run("through an HTTP proxy", func(t *testing.T) {
		proxy := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: published})
			r.SetXForwarded()
		}, Transport: &http.Transport{DisableKeepAlives: true}}, ReadHeaderTimeout: callLimit}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = proxy.Serve(ln)
		}()
		defer func() {
			_ = proxy.Close()
			<-done
		}()
		d := ask(t, http.MethodGet, "http://"+ln.Addr().String()+"/v1/desktop/stream/diagnose", "")
		if tcp := d["tcp"].(map[string]any); tcp["shared"] != false || !strings.Contains(tcp["problem"].(string), "proxy") {
			t.Errorf("diagnosis: %v", d)
		}
	})
}

// ask sends a request and decodes the answer.
func ask(t *testing.T, method, address, body string) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callLimit}
	resp, err := client.Do(req)
	result := map[string]any{}
	decode(t, address, resp, err, &result)
	return result
}

// watch wants video to come from an address, and the server to know how.
func watch(t *testing.T, host, network, from string) {
	t.Helper()

	ws, _, err := websocket.Dial(t.Context(), "ws://"+host+"/v1/desktop/stream/signaling?access_token="+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	v := &viewer{t: t, ws: ws, packets: make(chan struct{}, 1)}
	defer v.close()
	begun := time.Now()
	v.send("signal/request", map[string]any{"video": map[string]any{}})
	go v.listen()
	select {
	case <-v.packets:
	case <-time.After(callLimit):
		t.Fatalf("no video comes; the server says %v", ask(t, http.MethodGet, "http://"+host+"/v1/desktop/stream/diagnose", "")["verdict"])
	}
	t.Logf("video comes after %v", time.Since(begun).Round(time.Millisecond))
	pair := v.pair()
	if got := net.JoinHostPort(pair.Remote.Address, strconv.Itoa(int(pair.Remote.Port))); pair.Remote.Protocol.String() != network || got != from {
		t.Errorf("video comes by %s from %s, want %s from %s", pair.Remote.Protocol, got, network, from)
	}
	waitVerdict(t, host, network)
}

// waitVerdict waits until the server says that its only viewer uses a network.
func waitVerdict(t *testing.T, host, network string) {
	t.Helper()
	poll(t, callLimit, "the server knows how", func() (bool, string) {
		d := ask(t, http.MethodGet, "http://"+host+"/v1/desktop/stream/diagnose", "")
		verdict := d["verdict"].(string)
		return strings.Contains(verdict, "1 by "+strings.ToUpper(network)), verdict
	})
}

// sdkViewer is a script that watches as the published client does: with the list
// of ICE servers that it gets.
const sdkViewer = `(token) => {
	const socket = new WebSocket("ws://" + location.host + "/v1/desktop/stream/signaling?access_token=" + token);
	const send = (event, payload) => socket.send(JSON.stringify({ event, payload }));
	let pc, pending = Promise.resolve();
	const take = async ({ event, payload }) => {
		if (event === "signal/provide") {
			if (payload.iceservers.length === 0) return; // it would ask a public server
			pc = new RTCPeerConnection({ iceServers: payload.iceservers });
			pc.onicecandidate = (e) => { if (e.candidate) send("signal/candidate", e.candidate.toJSON()); };
			await pc.setRemoteDescription({ type: "offer", sdp: payload.sdp });
			await pc.setLocalDescription();
			send("signal/answer", { sdp: pc.localDescription.sdp });
		}
		if (event === "signal/candidate") await pc.addIceCandidate(payload).catch(() => {});
	};
	socket.onmessage = (e) => { pending = pending.then(() => take(JSON.parse(e.data))); };
	socket.onopen = () => send("signal/request", { video: {} });
	return true;
}`

// viewer is a browser, as far as the protocol goes.
type viewer struct {
	t       *testing.T
	ws      *websocket.Conn
	packets chan struct{} // one came

	mu sync.Mutex
	pc *pion.PeerConnection
}

func (v *viewer) send(event string, payload any) {
	_ = wsjson.Write(v.t.Context(), v.ws, map[string]any{"event": event, "payload": payload})
}

func (v *viewer) listen() {
	for {
		var m struct {
			Event   string
			Payload json.RawMessage
		}
		if err := wsjson.Read(context.Background(), v.ws, &m); err != nil {
			return
		}
		switch m.Event {
		case "signal/provide":
			var offer struct{ SDP string }
			if err := json.Unmarshal(m.Payload, &offer); err != nil {
				v.t.Error(err)
			}
			if err := v.answer(offer.SDP); err != nil {
				v.t.Error(err)
			}
		case "signal/candidate":
			var c pion.ICECandidateInit
			if err := json.Unmarshal(m.Payload, &c); err == nil && v.pc != nil {
				_ = v.pc.AddICECandidate(c) // names are not known to Pion
			}
		}
	}
}

func (v *viewer) answer(offer string) error {
	media := &pion.MediaEngine{}
	if err := media.RegisterDefaultCodecs(); err != nil {
		return err
	}
	engine := pion.SettingEngine{}
	engine.SetIncludeLoopbackCandidate(true)
	engine.SetNetworkTypes([]pion.NetworkType{pion.NetworkTypeUDP4, pion.NetworkTypeTCP4})
	pc, err := pion.NewAPI(pion.WithMediaEngine(media), pion.WithSettingEngine(engine)).NewPeerConnection(pion.Configuration{})
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.pc = pc
	v.mu.Unlock()
	pc.OnICECandidate(func(c *pion.ICECandidate) {
		if c != nil {
			v.send("signal/candidate", c.ToJSON())
		}
	})
	pc.OnTrack(func(track *pion.TrackRemote, _ *pion.RTPReceiver) {
		for {
			if _, _, err := track.ReadRTP(); err != nil {
				return
			}
			select {
			case v.packets <- struct{}{}:
			default:
			}
		}
	})
	if err := pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeOffer, SDP: offer}); err != nil {
		return err
	}
	answer, err := pc.CreateAnswer(nil)
	if err != nil {
		return err
	}
	if err := pc.SetLocalDescription(answer); err != nil {
		return err
	}
	v.send("signal/answer", map[string]string{"sdp": answer.SDP})
	return nil
}

func (v *viewer) pair() *pion.ICECandidatePair {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	pair, err := v.pc.SCTP().Transport().ICETransport().GetSelectedCandidatePair()
	if err != nil || pair == nil {
		v.t.Fatalf("no way is used: %v", err)
	}
	return pair
}

func (v *viewer) close() {
	_ = v.ws.CloseNow()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pc != nil {
		_ = v.pc.GracefulClose()
	}
}
