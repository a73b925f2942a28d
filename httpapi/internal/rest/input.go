package rest

import (
	"encoding/base64"
	"mime"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Accepts reports whether an Accept header allows one of the types.
func Accepts(header string, types ...string) bool {
	if strings.TrimSpace(header) == "" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil || params["q"] == "0" {
			continue
		}
		for _, t := range types {
			if kind == t || kind == "*/*" || kind == strings.Split(t, "/")[0]+"/*" {
				return true
			}
		}
	}
	return false
}

// JSONText is a name as JSON can have it, and its bytes in base64 when that is not
// all of it.
func JSONText(name string) (valid, bytes string) {
	if utf8.ValidString(name) {
		return name, ""
	}
	return strings.ToValidUTF8(name, "\uFFFD"), base64.StdEncoding.EncodeToString([]byte(name))
}

// JSONPath is a path in the text of a problem.
func JSONPath(path string) string {
	valid, _ := JSONText(path)
	return valid
}

type okBody struct {
	OK bool `json:"ok"`
}

// OKOutput is the answer {"ok":true}.
type OKOutput struct{ Body okBody }

// OKOr returns the answer {"ok":true}, or the error.
func OKOr(err error) (*OKOutput, error) {
	if err != nil {
		return nil, err
	}
	return &OKOutput{okBody{true}}, nil
}

// Input is a request with a JSON body.
type Input[T any] struct{ Body T }

// Output is an answer with a JSON body.
type Output[T any] struct{ Body T }

// Reply returns the answer with a body, or err.
func Reply[T any](body T, err error) (*Output[T], error) { return &Output[T]{body}, err }

// BodyOutput is an answer that writes its body.
type BodyOutput struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

// Value returns what p points to, or the zero value if p is nil: the client left it out.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Milliseconds is a duration, the longest one if it does not fit.
func Milliseconds(ms uint64) time.Duration {
	const most = uint64(1<<63-1) / uint64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond //nolint:gosec // it fits
}

// Optional is a query parameter of which it matters whether it was given.
type Optional[T any] struct {
	Value T
	Set   bool
}

// Schema describes the parameter as one of its value's type.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver is what huma parses the parameter into.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet records whether the parameter was given. huma calls it.
func (o *Optional[T]) OnParamSet(isSet bool, _ any) { o.Set = isSet }
