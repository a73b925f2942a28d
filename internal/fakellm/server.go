package fakellm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Request is a request that the server has received.
type Request struct {
	Path string
	Body json.RawMessage // nil if it was not JSON
}

// Server answers as a model would. Its zero value is ready.
type Server struct {
	mu       sync.Mutex
	requests []Request
}

// Requests returns all requests in the order of their arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// record records a request and returns its number.
func (s *Server) record(path string, body []byte) (number int) {
	req := Request{Path: path}
	if json.Valid(body) {
		req.Body = body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	return len(s.requests)
}

// members is a JSON object.
type members = map[string]any

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	e := &exchange{w: w, r: r, body: body, number: s.record(r.URL.Path, body)}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/messages"):
		err = e.messages()
	case strings.HasSuffix(path, "/messages/count_tokens"):
		e.send(http.StatusOK, members{"input_tokens": e.tokens()})
	case strings.HasSuffix(path, "/responses"):
		err = e.responses()
	case strings.HasSuffix(path, "/chat/completions"):
		err = e.completions()
	case strings.HasSuffix(path, ":generateContent"):
		err = e.generateContent()
	case strings.HasSuffix(path, "/models"):
		e.models()
	case path == "/": // a health check
	default:
		e.fail(http.StatusNotFound, "no such route: "+path)
	}
	if err != nil {
		e.fail(http.StatusBadRequest, err.Error())
	}
}

// exchange is one request and its answer.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	body   []byte
	number int
	events int
}

// tokens estimates the number of tokens of the request.
func (e *exchange) tokens() int { return len(e.body) / 4 }

// id returns an identifier that is unique to this answer.
func (e *exchange) id(prefix string, n int) string {
	return fmt.Sprintf("%s%06d%02d", prefix, e.number, n)
}

func (e *exchange) send(status int, v any) {
	e.w.Header().Set("Content-Type", "application/json")
	e.w.WriteHeader(status)
	_ = json.NewEncoder(e.w).Encode(v) // fails if the client has disconnected
}

// fail sends an error that both APIs' clients understand.
func (e *exchange) fail(status int, problem string) {
	kinds := map[int]string{
		http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error",
		http.StatusNotFound: "not_found_error", http.StatusTooManyRequests: "rate_limit_error", 529: "overloaded_error",
	}
	kind := kinds[status]
	if kind == "" {
		kind = "api_error"
	}
	e.send(status, members{"type": "error", "error": members{"type": kind, "code": kind, "message": problem}})
}

// event sends one server-sent event, without a name if that is empty.
func (e *exchange) event(name string, v any) {
	if e.events == 0 {
		e.w.Header().Set("Content-Type", "text/event-stream")
	}
	e.events++
	data, isText := v.(string)
	if !isText {
		text, err := json.Marshal(v)
		if err != nil {
			data = `{"error":"the script's arguments are not JSON"}`
		} else {
			data = string(text)
		}
	}
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", data)
	_ = http.NewResponseController(e.w).Flush() // fails if the client has disconnected
}

// pieces sends a text as models do, a few characters at a time.
func pieces(text string, send func(string)) {
	for chunk := range slices.Chunk([]rune(text), 24) {
		send(string(chunk))
	}
}

func (e *exchange) models() {
	var list []members
	for _, name := range []string{"fake-model", "claude-sonnet-4-5", "gpt-5"} {
		list = append(list, members{"id": name, "object": "model", "type": "model", "display_name": name, "created": 0, "owned_by": "fake"})
	}
	e.send(http.StatusOK, members{"object": "list", "data": list, "models": []any{}, "has_more": false})
}
