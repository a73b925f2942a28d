package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testotlp"
)

// TestTraces sends spans to the collector of the flag or of the environment, also the last
// ones, and keeps the collector's secrets from processes.
func TestTraces(t *testing.T) {
	t.Parallel()
	const trace, secret = "4bf92f3577b34da6a3ce929d0e0e4736", "collectorsecret"
	for name, env := range map[string]string{"flag": "OTEL_SERVICE_NAME=deskhand", "environment": "OTEL_EXPORTER_OTLP_ENDPOINT="} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testotlp.Start(t)
			args := []string{"--log-format", "json", "--access-log", "--log-level", "error,httpapi/internal/rest=info"}
			if name == "flag" {
				args = append(args, "--otlp-endpoint", r.URL)
			} else {
				env += r.URL
			}
			s := serve(t, environ(t, env, "OTEL_EXPORTER_OTLP_HEADERS=authorization="+secret), args...)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/v1/processes/run", strings.NewReader(`{"command":"env"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+s.token)
			req.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var run struct{ Stdout string }
			if err := json.NewDecoder(resp.Body).Decode(&run); err != nil || strings.Contains(run.Stdout, secret) || !strings.Contains(run.Stdout, "PATH=") {
				t.Errorf("%s, %v: the process has %q", resp.Status, err, run.Stdout)
			}
			s.signal(t, 15)
			if got, want := r.Tree(trace, "deskhand.request"), "POST /v1/processes/run http.request.method=POST http.response.status_code=200 http.route=/v1/processes/run\n"; got != want {
				t.Errorf("spans:\n%s", got)
			}
			all := r.Requests()
			if len(all) != 1 || all[0].Header.Get("Authorization") != secret || r.Services()[0] != "deskhand" {
				t.Errorf("%d requests of %q", len(all), r.Services())
			}
			lines := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
			var line struct {
				Msg, URL, Request string
				Trace             string `json:"trace_id"`
			}
			if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 1 {
				t.Fatalf("%v in the log %q", err, lines)
			}
			if line.Msg != "request" || line.Trace != trace || line.Request != resp.Header.Get("X-Request-Id") || line.Request == "" {
				t.Errorf("the line of the request is %s", lines[0])
			}
		})
	}
	for env, args := range map[string][]string{
		"A=b": {"server", "--otlp-endpoint", "nowhere"}, "OTEL_TRACES_EXPORTER=zipkin": {"server"},
	} {
		r := runCommandLine(t, environ(t, env), args...)
		want := "--otlp-endpoint: the endpoint must be a URL such as http://localhost:4318"
		if len(args) == 1 {
			want = `OTEL_TRACES_EXPORTER must be otlp or none, not "zipkin"`
		}
		if r.status != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s %q: %+v", env, args, r)
		}
	}
}
