package otlp_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/otlp"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testotlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setenv sets variables, and removes all others of OpenTelemetry.
func setenv(t *testing.T, set ...string) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for _, kv := range set {
		if name, value, ok := strings.Cut(kv, "="); ok {
			t.Setenv(name, value)
		}
	}
}

// start starts a provider that ends with the test.
func start(t *testing.T, endpoint string) (*otlp.Provider, *testlog.Buffer) {
	t.Helper()
	log := &testlog.Buffer{}
	p, err := otlp.Start(t.Context(), otlp.Config{Endpoint: endpoint, Version: "v1", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p, log
}

// span makes a span and has it sent.
func span(t *testing.T, p *otlp.Provider, name string) error {
	t.Helper()
	_, s := p.Tracer("test").Start(t.Context(), name)
	s.End()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return p.Flush(ctx)
}

// TestSend sends spans as the environment says.
func TestSend(t *testing.T) {
	r := testotlp.Start(t)
	for name, c := range map[string]struct {
		endpoint string
		env      []string
		header   map[string]string
		service  string
	}{
		"flag":        {r.URL, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://192.0.2.1:1"}, nil, "deskhand"},
		"flag slash":  {r.URL + "/", []string{"OTEL_TRACES_EXPORTER=none", "OTEL_SERVICE_NAME=ours"}, nil, "ours"},
		"environment": {"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL}, nil, "deskhand"},
		"traces":      {"", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + r.URL + "/v1/traces", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}, nil, "deskhand"},
		"headers": {
			"", []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b, x-other=c==", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"},
			map[string]string{"X-Key": "a b", "X-Other": "c==", "Content-Encoding": "gzip"}, "deskhand",
		},
		"headers of traces": {
			r.URL, []string{"OTEL_EXPORTER_OTLP_HEADERS=x-key=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=x-key=2", "OTEL_RESOURCE_ATTRIBUTES=service.name=other"},
			map[string]string{"X-Key": "2"}, "other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, c.env...)
			p, _ := start(t, c.endpoint)
			before := len(r.Requests())
			if err := span(t, p, "span of "+name); err != nil {
				t.Fatal(err)
			}
			all := r.Requests()[before:]
			if len(all) != 1 || !r.Contains("span of "+name) || r.Services()[before] != c.service {
				t.Fatalf("%d requests, services %q", len(all), r.Services())
			}
			for name, value := range c.header {
				if got := all[0].Header.Get(name); got != value {
					t.Errorf("%s is %q", name, got)
				}
			}
		})
	}
}

// TestOff starts no provider without a reason.
func TestOff(t *testing.T) {
	for _, env := range [][]string{
		nil, {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none"}, {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
	} {
		setenv(t, env...)
		if p, err := otlp.Start(t.Context(), otlp.Config{Logger: slog.New(slog.DiscardHandler)}); p != nil || err != nil {
			t.Errorf("%q: %v, %v", env, p, err)
		}
	}
}

// TestSettings names the setting that is wrong, and no secret.
func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "http://127.0.0.1:1"
	for _, c := range []struct{ endpoint, env, want string }{
		{"127.0.0.1:4318", "", "the endpoint must be a URL such as"},
		{"ftp://host", "", "the endpoint must be a URL such as"},
		{"http://u:secret@host", "", "the endpoint must have no user and no password; put them into OTEL_EXPORTER_OTLP_HEADERS"},
		{"http://host?key=secret", "", "the endpoint must have no query"},
		{"", "OTEL_EXPORTER_OTLP_ENDPOINT=secret", "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as"},
		{"", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=secret", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be a URL such as"},
		{"", "OTEL_TRACES_EXPORTER=zipkin", `OTEL_TRACES_EXPORTER must be otlp or none, not "zipkin"`},
		{good, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", `OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, not "grpc"`},
		{good, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be"},
		{good, "OTEL_EXPORTER_OTLP_HEADERS=a=b,secret", "OTEL_EXPORTER_OTLP_HEADERS: part 2 must be name=value"},
		{good, "OTEL_EXPORTER_OTLP_HEADERS=a=secret%", "OTEL_EXPORTER_OTLP_HEADERS: part 1 must be name=value"},
		{good, "OTEL_EXPORTER_OTLP_TIMEOUT=1s", `OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, not "1s"`},
		{good, "OTEL_EXPORTER_OTLP_COMPRESSION=zstd", `OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none, not "zstd"`},
		{good, "OTEL_EXPORTER_OTLP_CERTIFICATE=/no/such/file", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /no/such/file"},
		{good, "OTEL_EXPORTER_OTLP_CERTIFICATE=" + file, "has no certificate"},
		{good, "OTEL_EXPORTER_OTLP_CLIENT_KEY=" + file, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY must be set together"},
	} {
		setenv(t, c.env)
		_, err := otlp.Start(t.Context(), otlp.Config{Endpoint: c.endpoint, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestOutage sends again what an overloaded collector does not take, follows no redirection,
// and logs the beginning and the end of an outage.
func TestOutage(t *testing.T) {
	setenv(t, "OTEL_EXPORTER_OTLP_HEADERS=x-key=secret")
	var status, count atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			t.Errorf("redirected to %s", r.URL.Path)
		}
		switch s := status.Load(); {
		case count.Add(1) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case s != 0:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(int(s))
		}
	}))
	t.Cleanup(srv.Close)
	p, log := start(t, srv.URL)
	if err := span(t, p, "one"); err != nil || count.Load() != 2 {
		t.Errorf("%v after %d requests", err, count.Load())
	}
	status.Store(http.StatusTemporaryRedirect)
	for i := range 2 {
		_ = span(t, p, fmt.Sprint("lost ", i)) // the SDK reports the error to the log
	}
	status.Store(0)
	_ = span(t, p, "two")
	var lines []string
	for line := range strings.Lines(log.String()) {
		_, message, _ := strings.Cut(line, " level=")
		message, _, _ = strings.Cut(message, " collector=")
		lines = append(lines, message)
	}
	want := []string{`WARN msg="traces cannot be sent; spans are lost until they can"`, `INFO msg="traces are sent again"`}
	if !slices.Equal(lines, want) || strings.Contains(log.String(), "secret") {
		t.Errorf("log: %s", log.String())
	}
}
