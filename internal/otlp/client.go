package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// client posts spans to a collector. It is an otlptrace.Client.
type client struct {
	settings
	http    *http.Client
	log     *slog.Logger
	failing atomic.Bool // the last spans could not be sent
}

func newClient(s settings, log *slog.Logger) *client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.tls, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}
	return &client{settings: s, log: log, http: &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // only the collector may get the headers
		},
	}}
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

const (
	firstWait = time.Second
	mostWait  = 30 * time.Second
)

// UploadTraces implements otlptrace.Client. It tries again while the collector is overloaded
// or cannot be reached, until ctx ends.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := c.upload(ctx, spans)
	if failed := err != nil; c.failing.Swap(failed) != failed {
		if failed {
			c.log.Warn("traces cannot be sent; spans are lost until they can", "collector", c.url, "error", err)
		} else {
			c.log.Info("traces are sent again", "collector", c.url)
		}
	}
	if err != nil {
		return &uploadError{err}
	}
	return nil
}

// uploadError is the error of spans that were not sent. It is in the log already.
type uploadError struct{ error }

// Unwrap returns the reason.
func (e *uploadError) Unwrap() error { return e.error }

func (c *client) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// It is encoded like the request of the collector's service.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // memory has no error
		_ = z.Close()
		body = b.Bytes()
	}
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		err := c.post(ctx, body)
		var again *retryError
		if !errors.As(err, &again) {
			return err
		}
		t := time.NewTimer(max(wait, again.after))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// retryError is the error of a request that may succeed later.
type retryError struct {
	error
	after time.Duration // the least time to wait
}

// Unwrap returns the reason.
func (e *retryError) Unwrap() error { return e.error }

// post sends the spans once.
func (c *client) post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return &retryError{err, 0}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is used again
	_ = resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	err = fmt.Errorf("the collector answered %s", resp.Status)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
		return &retryError{err, time.Duration(seconds) * time.Second}
	}
	return err
}
