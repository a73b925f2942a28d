package deploytest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// client calls a server, perhaps through a proxy.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// newClient returns a client that finds every name on this machine and does not
// check certificates.
func newClient(base *url.URL, token string) *client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	return &client{base, token, &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dial, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}}
}

// do sends a request and returns the answer, whose body ends with the test.
func (c *client) do(t *testing.T, method, path string, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.base.String()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// call sends JSON, if body is not empty, and decodes the answer's.
func (c *client) call(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	resp := c.do(t, method, path, strings.NewReader(body), "Content-Type", "application/json")
	answer := map[string]any{}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s = %s: %s", method, path, resp.Status, text)
	}
	return answer
}

// socket opens a WebSocket, with the token in the URL as browsers send it.
func (c *client) socket(t *testing.T, path string) *websocket.Conn {
	t.Helper()
	at := *c.base
	at.Scheme = strings.Replace(at.Scheme, "http", "ws", 1)
	plain := c.http.Transport.(*http.Transport).Clone()
	plain.ForceAttemptHTTP2, plain.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	plain.TLSClientConfig.NextProtos = nil

	ws, resp, err := websocket.Dial(t.Context(), at.String()+path+"?access_token="+c.token, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: plain}, HTTPHeader: http.Header{"Origin": {c.base.String()}},
	})
	if err != nil {
		t.Fatalf("WebSocket %s: %v %v", path, err, resp)
	}
	ws.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// receive reads messages until one is wanted.
func receive(t *testing.T, ws *websocket.Conn, what string, wanted func(kind websocket.MessageType, data []byte) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		kind, data, err := ws.Read(ctx)
		if err != nil {
			t.Fatalf("no %s: %v", what, err)
		}
		if wanted(kind, data) {
			return
		}
	}
}

// lines sends the lines of a body as they arrive.
func lines(body io.Reader) <-chan string {
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		for scanner := bufio.NewScanner(body); scanner.Scan(); {
			all <- scanner.Text()
		}
	}()
	return all
}

// certificate writes a certificate for a name and its key.
func certificate(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "desk.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))),
		writeFile(t, "desk.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// writeFile writes a file into a new directory and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
