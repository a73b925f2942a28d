package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
)

// typePrefix begins the type of every problem.
const typePrefix = "urn:sandbox-agent:error:"

// Problem is an error as clients see it: application/problem+json (RFC 9457).
// A desktop.Config.Policy may return one to choose the answer to a refusal.
type Problem struct {
	Code   string         // last part of the type URN: "desktop_invalid_action"
	Title  string         // short, the same for every problem of that code
	Status int            // HTTP status
	Detail string         // what went wrong this time, and what to do about it
	Extra  map[string]any // further members of the JSON object
	Header http.Header    // further response headers
}

// Error makes a Problem an error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are the response headers that belong to the problem.
func (p *Problem) GetHeaders() http.Header { return p.Header }

// ContentType is that of problems, whatever was negotiated.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// MarshalJSON writes type, title, status and detail in that order, then the
// extra members, sorted.
func (p *Problem) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	member := func(name string, value any) error {
		v, err := marshalJSON(value)
		if err != nil {
			return err
		}
		b.WriteString(`"` + name + `":`)
		b.Write(v)
		return nil
	}
	b.WriteByte('{')
	for _, m := range []struct {
		name  string
		value any
	}{{"type", typePrefix + p.Code}, {"title", p.Title}, {"status", p.Status}, {"detail", p.Detail}} {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		if err := member(m.name, m.value); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		b.WriteByte(',')
		if err := member(name, p.Extra[name]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshalJSON is json.Marshal without the escapes that only HTML needs.
func marshalJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// kind is what all problems of one sort have in common.
type kind struct {
	code, title string
	status      int
}

// The kinds of problem.
var (
	invalidRequest    = kind{"invalid_request", "Invalid Request", http.StatusBadRequest}
	routeNotFound     = kind{"invalid_request", "Not Found", http.StatusNotFound}
	methodNotAllowed  = kind{"invalid_request", "Method Not Allowed", http.StatusMethodNotAllowed}
	methodUnknown     = kind{"invalid_request", "Not Implemented", http.StatusNotImplemented}
	payloadTooLarge   = kind{"invalid_request", "Payload Too Large", http.StatusRequestEntityTooLarge}
	requestTimeout    = kind{"invalid_request", "Request Timeout", http.StatusRequestTimeout}
	headersTooLarge   = kind{"invalid_request", "Request Header Fields Too Large", http.StatusRequestHeaderFieldsTooLarge}
	noRange           = kind{"invalid_request", "Range Not Satisfiable", http.StatusRequestedRangeNotSatisfiable}
	preconditions     = kind{"conflict", "Precondition Failed", http.StatusPreconditionFailed}
	noSpace           = kind{"stream_error", "Insufficient Storage", http.StatusInsufficientStorage}
	conflict          = kind{"conflict", "Conflict", http.StatusConflict}
	tokenInvalid      = kind{"token_invalid", "Token Invalid", http.StatusUnauthorized}
	permissionDenied  = kind{"permission_denied", "Permission Denied", http.StatusForbidden}
	notAcceptable     = kind{"not_acceptable", "Not Acceptable", http.StatusNotAcceptable}
	unsupportedMedia  = kind{"unsupported_media_type", "Unsupported Media Type", http.StatusUnsupportedMediaType}
	notFound          = kind{"not_found", "Not Found", http.StatusNotFound}
	internal          = kind{"stream_error", "Internal Server Error", http.StatusInternalServerError}
	shuttingDown      = kind{"stream_error", "Service Unavailable", http.StatusServiceUnavailable}
	timedOut          = kind{"timeout", "Timeout", http.StatusGatewayTimeout}
	runtimeInactive   = kind{"desktop_runtime_inactive", "Desktop Runtime Inactive", http.StatusConflict}
	runtimeStarting   = kind{"desktop_runtime_starting", "Desktop Runtime Starting", http.StatusConflict}
	runtimeFailed     = kind{"desktop_runtime_failed", "Desktop Runtime Failed", http.StatusServiceUnavailable}
	dependencies      = kind{"desktop_dependencies_missing", "Desktop Dependencies Missing", http.StatusServiceUnavailable}
	unsupportedAction = kind{"desktop_unsupported_platform", "Desktop Unsupported", http.StatusNotImplemented}
	invalidAction     = kind{"desktop_invalid_action", "Desktop Invalid Action", http.StatusBadRequest}
	screenshotFailed  = kind{"desktop_screenshot_failed", "Desktop Screenshot Failed", http.StatusBadGateway}
	inputFailed       = kind{"desktop_input_failed", "Desktop Input Failed", http.StatusBadGateway}
	inputEnded        = kind{"desktop_input_failed", "Desktop Input Failed", http.StatusConflict}
	windowNotFound    = kind{"window_not_found", "Window Not Found", http.StatusNotFound}
	noFocusedWindow   = kind{"no_focused_window", "No Focused Window", http.StatusNotFound}
	appNotFound       = kind{"app_not_found", "App Not Found", http.StatusNotFound}
)

// problem makes a Problem of that kind.
func (k kind) problem(detail string) *Problem {
	return &Problem{Code: k.code, Title: k.title, Status: k.status, Detail: detail}
}

// desktop makes a Problem that repeats its code as a member, as those about
// desktops do.
func (k kind) desktop(detail string) *Problem {
	return k.problem(detail).with("code", k.code)
}

// with adds a member.
func (p *Problem) with(name string, value any) *Problem {
	if p.Extra == nil {
		p.Extra = map[string]any{}
	}
	p.Extra[name] = value
	return p
}

// header adds a response header.
func (p *Problem) header(name, value string) *Problem {
	if p.Header == nil {
		p.Header = http.Header{}
	}
	p.Header.Set(name, value)
	return p
}

// invalidField is invalid for routes that are not about desktops.
func invalidField(field, sentence string) *Problem {
	return invalidRequest.problem("invalid request: "+sentence).with("field", field)
}

// invalid refuses an argument of a desktop's route: field is its JSON or query
// name, sentence says what would be accepted.
func invalid(field, sentence string) *Problem {
	return invalidAction.desktop(sentence).with("field", field)
}
