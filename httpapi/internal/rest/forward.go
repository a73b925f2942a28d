package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

// forwarded marks requests that another server has passed on. They are not passed on again.
const forwarded = "Deskhand-Forwarded"

// The headers of a request and of an answer that one connection, or one server, has for itself.
var (
	hopHeaders = []string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		fiber.HeaderContentLength, fiber.HeaderXRequestID,
	}
	askedHeaders    = append([]string{fiber.HeaderHost, fiber.HeaderOrigin, fiber.HeaderReferer, fiber.HeaderCookie, fiber.HeaderExpect}, hopHeaders...)
	answeredHeaders = append([]string{
		fiber.HeaderVary, "Date", fiber.HeaderXContentTypeOptions, "Cross-Origin-Resource-Policy",
		// What a browser would take for the server that it asked.
		fiber.HeaderSetCookie, "Clear-Site-Data", fiber.HeaderContentSecurityPolicy, fiber.HeaderStrictTransportSecurity,
	}, hopHeaders...)
)

// newPeers returns the client of forwarder.
func newPeers() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:        (&net.Dialer{Timeout: dialTime}).DialContext,
			DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTime / 2,
			TLSHandshakeTimeout: dialTime, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dialTime bounds the connection to another server, and the TLS handshake.
const dialTime = 5 * time.Second

// forwarder passes requests on to other servers.
type forwarder struct{ *API }

// mayForward reports whether a request can be passed on to another server.
func (a forwarder) mayForward(r *Request) bool {
	return a.cfg.Forward && r != nil && r.Fiber.Get(forwarded) == "" && !strings.EqualFold(r.Fiber.Get(fiber.HeaderUpgrade), "websocket")
}

// forward passes a request on to the server at r.elsewhere, and its answer to the client. The
// other server checks the token itself. The answer to the client is a Problem if the other
// server cannot be reached.
func (a forwarder) forward(r *Request) error {
	to, err := url.Parse(r.elsewhere)
	if err != nil {
		return fmt.Errorf("address of another server: %w", err)
	}
	u := r.URL()
	u.Scheme, u.Host, u.User = to.Scheme, to.Host, nil
	ctx, cancel := context.WithCancel(context.Background())
	waiting, stop := UntilGone(r.ctx, r.Fiber)
	end := context.AfterFunc(waiting, cancel)
	answer, err := a.ask(ctx, r, u.String())
	var text []byte
	short := err == nil && answer.ContentLength >= 0 && answer.ContentLength <= Prefetch
	if short {
		text, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
	}
	end()
	stop()
	if err != nil {
		cancel()
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // the text of failed has the URL, which may have a token
		}
		a.log.Warn("a request could not be passed on", "server", r.elsewhere, "error", err)
		return Unavailable.Problem("the server that runs the agent cannot be reached; try again").
			With("server", r.elsewhere).WithHeader(fiber.HeaderRetryAfter, "1")
	}
	c := r.Fiber
	c.Response().ResetBody()
	for _, name := range []string{fiber.HeaderContentType, fiber.HeaderRetryAfter} {
		c.Response().Header.Del(name)
	}
	for name, values := range answer.Header {
		if slices.Contains(answeredHeaders, name) || strings.HasPrefix(name, "Access-Control-") {
			continue
		}
		c.Response().Header.Del(name)
		for _, v := range values {
			r.AppendHeader(name, v)
		}
	}
	c.Status(answer.StatusCode)
	if short {
		cancel()
		r.Send(text)
		return nil
	}
	a.pass(r, answer, cancel)
	return nil
}

// ask sends a request to another server.
func (a forwarder) ask(ctx context.Context, r *Request, to string) (*http.Response, error) {
	var body io.Reader
	if kept := r.keptBody(); len(kept) > 0 {
		body = bytes.NewReader(kept)
	}
	out, err := http.NewRequestWithContext(ctx, r.Method(), to, body)
	if err != nil {
		return nil, err
	}
	left := slices.Clone(askedHeaders)
	for _, names := range r.Fiber.Request().Header.PeekAll(fiber.HeaderConnection) {
		for name := range strings.SplitSeq(string(names), ",") {
			left = append(left, http.CanonicalHeaderKey(strings.TrimSpace(name))) // for this connection (RFC 9110, section 7.6.1)
		}
	}
	r.EachHeader(func(name, value string) {
		if name = http.CanonicalHeaderKey(name); !slices.Contains(left, name) && !strings.HasPrefix(name, "Sec-Fetch-") {
			out.Header.Add(name, value)
		}
	})
	out.Header.Set(forwarded, "1")
	out.Header.Set(fiber.HeaderXRequestID, r.asked.id)
	answer, err := a.peers.Do(out)
	if err == nil && answer.StatusCode == http.StatusSwitchingProtocols {
		return nil, errors.Join(errors.New("it changed the protocol"), answer.Body.Close())
	}
	return answer, err
}

// pass streams the answer of another server. If that breaks off, so does the connection to the
// client.
func (a forwarder) pass(r *Request, answer *http.Response, cancel context.CancelFunc) {
	conn := r.Fiber.Context().Conn()
	a.Follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
		wanted, stop := WhileWanted(gone, ending)
		defer stop()
		defer answer.Body.Close()
		defer cancel()
		defer context.AfterFunc(wanted, cancel)()
		for piece := make([]byte, 32<<10); ; {
			n, err := answer.Body.Read(piece)
			_, _ = w.Write(piece[:n]) // flush returns the error
			if failed := flush(); failed != nil || errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				_ = conn.Close()
				return
			}
		}
	})
}

// keptBody returns the body of a request that was read into memory.
func (r *Request) keptBody() []byte {
	if r.buffered == nil || r.Empty {
		return nil
	}
	return r.buffered.kept
}
