// Package testotlp receives spans in tests, as a collector does.
package testotlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver is a collector: an HTTP server that decodes the spans that are posted to
// /v1/traces.
type Receiver struct {
	URL string

	mu       sync.Mutex // guards what follows
	requests []*http.Request
	bodies   [][]byte // decompressed
	spans    []*tracepb.Span
	services []string
	problems []error
}

// Start starts a receiver that ends with the test.
func Start(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.receive)
	srv := httptest.NewServer(mux)
	r.URL = srv.URL
	tb.Cleanup(func() {
		srv.Close()
		for _, err := range r.problems {
			tb.Errorf("spans that cannot be decoded: %v", err)
		}
	})
	return r
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, body, err := decode(req)
	r.requests, r.bodies = append(r.requests, req), append(r.bodies, body)
	if err != nil {
		r.problems = append(r.problems, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, resource := range data.GetResourceSpans() {
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				r.services = append(r.services, a.GetValue().GetStringValue())
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// decode decodes the spans in a request.
func decode(req *http.Request) (data *tracepb.TracesData, body []byte, err error) {
	if kind := req.Header.Get("Content-Type"); kind != "application/x-protobuf" {
		return nil, nil, fmt.Errorf("Content-Type is %q", kind)
	}
	var in io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(req.Body); err != nil {
			return nil, nil, err
		}
	}
	if body, err = io.ReadAll(in); err != nil {
		return nil, nil, err
	}
	data = new(tracepb.TracesData)
	return data, body, proto.Unmarshal(body, data)
}

// Requests returns the requests that came.
func (r *Receiver) Requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Services returns the names of the services whose spans came.
func (r *Receiver) Services() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.services)
}

// Contains reports whether a text is anywhere in what came.
func (r *Receiver) Contains(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.bodies, func(body []byte) bool { return bytes.Contains(body, []byte(text)) })
}

// Traces returns the ids of the traces that came.
func (r *Receiver) Traces() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, span := range r.spans {
		ids = append(ids, hex.EncodeToString(span.GetTraceId()))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Tree returns the spans of a trace, one a line: a span is below its parent, and its children
// have the order in which they began. Attributes in skip are left out.
func (r *Receiver) Tree(trace string, skip ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	children, ids := map[string][]*tracepb.Span{}, map[string]bool{}
	for _, span := range r.spans {
		if hex.EncodeToString(span.GetTraceId()) == trace {
			ids[string(span.GetSpanId())] = true
		}
	}
	for _, span := range r.spans {
		if !ids[string(span.GetSpanId())] {
			continue
		}
		parent := string(span.GetParentSpanId())
		if !ids[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], span)
	}
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		list := children[parent]
		slices.SortStableFunc(list, func(a, b *tracepb.Span) int { return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()) })
		for _, span := range list {
			fmt.Fprintf(&b, "%s%s%s\n", indent, span.GetName(), details(span, skip))
			write(string(span.GetSpanId()), indent+"  ")
		}
	}
	write("", "")
	return b.String()
}

// details returns the attributes of a span and whether it failed.
func details(span *tracepb.Span, skip []string) string {
	var parts []string
	for _, a := range span.GetAttributes() {
		if !slices.Contains(skip, a.GetKey()) {
			parts = append(parts, " "+a.GetKey()+"="+valueOf(a.GetValue()))
		}
	}
	slices.Sort(parts)
	if span.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		parts = append(parts, " failed")
	}
	return strings.Join(parts, "")
}

func valueOf(v *commonpb.AnyValue) string {
	if _, ok := v.GetValue().(*commonpb.AnyValue_IntValue); ok {
		return fmt.Sprint(v.GetIntValue())
	}
	return v.GetStringValue()
}
