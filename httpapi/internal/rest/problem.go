package rest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// TypePrefix begins the type of every problem.
const TypePrefix = "urn:sandbox-agent:error:"

// Problem is an error as clients see it: application/problem+json (RFC 9457).
// A desktop.Config.Policy may return one to choose the answer to a refusal.
type Problem struct {
	Code   string         // last part of the type URN: "desktop_invalid_action"
	Title  string         // short, the same for every problem of that code
	Status int            // HTTP status
	Detail string         // what went wrong this time, and what to do about it
	Extra  map[string]any // further members of the JSON object
	Header http.Header    // further response headers
	At     string         // URL of the server that can answer the request; empty: there is none
}

// Error makes a Problem an error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are the response headers that belong to the problem.
func (p *Problem) GetHeaders() http.Header { return p.Header }

// ContentType returns the media type of problems, whatever was negotiated.
func (p *Problem) ContentType(string) string { return ProblemType }

// ProblemType is the type of answers that are problems.
const ProblemType = "application/problem+json"

// MarshalJSON writes type, title, status and detail in that order, then the
// extra members, sorted.
func (p *Problem) MarshalJSON() ([]byte, error) {
	text, err := plainjson.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{TypePrefix + p.Code, p.Title, p.Status, p.Detail})
	if err != nil || len(p.Extra) == 0 {
		return text, err
	}
	extra, err := plainjson.Marshal(p.Extra)
	if err != nil {
		return nil, err
	}
	return slices.Concat(text[:len(text)-1], []byte{','}, extra[1:]), nil
}

// Kind is what all problems of one sort have in common.
type Kind struct {
	Code, Title string
	Status      int
}

// The kinds of problem.
var (
	InvalidRequest   = Kind{"invalid_request", "Invalid Request", http.StatusBadRequest}
	routeNotFound    = Kind{"invalid_request", "Not Found", http.StatusNotFound}
	methodNotAllowed = Kind{"invalid_request", "Method Not Allowed", http.StatusMethodNotAllowed}
	methodUnknown    = Kind{"invalid_request", "Not Implemented", http.StatusNotImplemented}
	PayloadTooLarge  = Kind{"invalid_request", "Payload Too Large", http.StatusRequestEntityTooLarge}
	RequestTimeout   = Kind{"invalid_request", "Request Timeout", http.StatusRequestTimeout}
	headersTooLarge  = Kind{"invalid_request", "Request Header Fields Too Large", http.StatusRequestHeaderFieldsTooLarge}
	noRange          = Kind{"invalid_request", "Range Not Satisfiable", http.StatusRequestedRangeNotSatisfiable}
	Preconditions    = Kind{"conflict", "Precondition Failed", http.StatusPreconditionFailed}
	NoSpace          = Kind{"stream_error", "Insufficient Storage", http.StatusInsufficientStorage}
	Conflict         = Kind{"conflict", "Conflict", http.StatusConflict}
	tokenInvalid     = Kind{"token_invalid", "Token Invalid", http.StatusUnauthorized}
	PermissionDenied = Kind{"permission_denied", "Permission Denied", http.StatusForbidden}
	NotAcceptable    = Kind{"not_acceptable", "Not Acceptable", http.StatusNotAcceptable}
	UnsupportedMedia = Kind{"unsupported_media_type", "Unsupported Media Type", http.StatusUnsupportedMediaType}
	notFound         = Kind{"not_found", "Not Found", http.StatusNotFound}
	Internal         = Kind{"stream_error", "Internal Server Error", http.StatusInternalServerError}
	answerNotSent    = Kind{"answer_not_sent", "Answer Not Sent", http.StatusInternalServerError}
	Unavailable      = Kind{"stream_error", "Service Unavailable", http.StatusServiceUnavailable}
	TimedOut         = Kind{"timeout", "Timeout", http.StatusGatewayTimeout}
)

// Problem makes a Problem of that kind.
func (k Kind) Problem(detail string) *Problem {
	return &Problem{Code: k.Code, Title: k.Title, Status: k.Status, Detail: detail}
}

// Message makes a Problem whose detail is the code in words and the message, which is also
// a member of its details.
func (k Kind) Message(text string) *Problem {
	return k.Problem(strings.ReplaceAll(k.Code, "_", " ")+": "+text).With("details", map[string]any{"message": text})
}

// WithCode makes a Problem that repeats its code as a member, as those about
// desktops do.
func (k Kind) WithCode(detail string) *Problem {
	return k.Problem(detail).With("code", k.Code)
}

// With adds a member.
func (p *Problem) With(name string, value any) *Problem {
	if p.Extra == nil {
		p.Extra = map[string]any{}
	}
	p.Extra[name] = value
	return p
}

// WithHeader adds a response header.
func (p *Problem) WithHeader(name, value string) *Problem {
	if p.Header == nil {
		p.Header = http.Header{}
	}
	p.Header.Set(name, value)
	return p
}

// InvalidField is invalid for routes that are not about desktops.
func InvalidField(field, sentence string) *Problem {
	return InvalidRequest.Problem("invalid request: "+sentence).With("field", field)
}
