package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type clipboardQuery struct {
	Selection string `query:"selection" enum:"clipboard,primary" default:"clipboard" doc:"primary is what was marked last"`
	Format    string `query:"format" enum:"text,png" default:"text" doc:"png answers with the image itself"`
}

type clipboardText struct {
	Text      string `json:"text" doc:"Empty when the selection holds no text"`
	Selection string `json:"selection"`
}

type clipboardOutput struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

// clipboardFactor is how much larger than other bodies those for the clipboard may be.
const clipboardFactor = 16

type clipboardBody struct {
	Text      string  `json:"text"`
	Selection *string `json:"selection,omitempty" enum:"clipboard,primary,both" doc:"clipboard when left out"`
}

// clipboardInput has its body raw: it may be JSON or an image.
type clipboardInput struct {
	Selection   string `query:"selection" enum:"clipboard,primary,both" default:"clipboard" doc:"Of an image; text has it in its body"`
	RawBody     []byte
	contentType string
}

// Resolve keeps the body's type.
func (in *clipboardInput) Resolve(ctx huma.Context) []error {
	in.contentType = ctx.Header(fiber.HeaderContentType)
	return nil
}

func (s *Server) registerClipboard() {
	schemas := s.rest.Huma.OpenAPI().Components.Schemas
	r := rest.Route{
		ID: "readClipboard", Scope: grants.ScopeControl, Method: http.MethodGet, Path: "/clipboard", Tag: "Clipboard", Other: rest.InputFailed,
		Summary: "Read what was copied", Errors: []int{http.StatusNotAcceptable, http.StatusBadGateway},
		Content: map[string]*huma.MediaType{
			fiber.MIMEApplicationJSON: {Schema: schemas.Schema(reflect.TypeFor[clipboardText](), true, "ClipboardText")},
			pngType:                   rest.Binary(),
		},
		Large: true,
	}
	on(s, r, nil, readClipboard)
	text := schemas.Schema(reflect.TypeFor[clipboardBody](), true, "ClipboardBody")
	r = rest.Route{
		ID: "writeClipboard", Method: http.MethodPost, Path: "/clipboard", Tag: "Clipboard", Other: rest.InputFailed,
		Summary: "Put a text, or a PNG image, on the clipboard",
		About:   "Its body may be 16 times as large as those of other calls: 32 MiB, unless the server was set up otherwise.",
		Errors:  []int{http.StatusBadGateway},
		Body: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			fiber.MIMEApplicationJSON: {Schema: text}, pngType: rest.Binary(),
		}},
		Most: clipboardFactor * int64(s.cfg.MaxBodyBytes),
	}
	decode := func(in *clipboardInput) (desktop.Content, []desktop.Selection, error) {
		return s.clipboardContent(schemas, text, in)
	}
	on(s, r, func(in *clipboardInput) error { _, _, err := decode(in); return err },
		func(ctx context.Context, d Desktop, in *clipboardInput) (*rest.OKOutput, error) {
			content, to, err := decode(in)
			if err != nil {
				return nil, err
			}
			return rest.OKOr(d.SetClipboard(ctx, content, to...))
		})
}

func readClipboard(ctx context.Context, d Desktop, in *clipboardQuery) (*clipboardOutput, error) {
	sel := desktop.Selection(in.Selection)
	if in.Format == "png" {
		c, err := d.Clipboard(ctx, sel, desktop.TypePNG)
		if err != nil {
			return nil, err
		}
		return &clipboardOutput{pngType, func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			rest.RequestOf(ctx).Send(c.Data)
		}}, nil
	}
	c, err := d.Clipboard(ctx, sel, desktop.TypeText)
	if err != nil && !errors.Is(err, desktop.ErrNoClipboardContent) {
		return nil, err
	}
	return &clipboardOutput{fiber.MIMEApplicationJSON, func(ctx huma.Context) {
		ctx.SetStatus(http.StatusOK)
		rest.RequestOf(ctx).SendEncoded(c.Data, func(text []byte) io.Reader { return newTextReader(text, in.Selection) })
	}}, nil
}

// textReader reads the JSON of a clipboardText. The JSON can be six times as large as the
// text, so it is made in pieces.
type textReader struct {
	text  []byte // still to be encoded
	piece []byte // encoded, and still to be read
	end   []byte // after the text
}

func newTextReader(text []byte, selection string) *textReader {
	name, _ := rest.MarshalJSON(selection) // a string has no error
	return &textReader{text: text, piece: []byte(`{"text":"`), end: slices.Concat([]byte(`","selection":`), name, []byte("}"))}
}

// Read implements io.Reader.
func (r *textReader) Read(p []byte) (int, error) {
	if len(r.piece) == 0 {
		switch {
		case len(r.text) > 0:
			n := min(len(r.text), 32<<10)
			for last := min(len(r.text), n+utf8.UTFMax); n < last && !utf8.RuneStart(r.text[n]); {
				n++
			}
			piece, err := rest.MarshalJSON(string(r.text[:n]))
			if err != nil {
				return 0, err
			}
			r.text, r.piece = r.text[n:], piece[1:len(piece)-1] // without quotes
		case len(r.end) > 0:
			r.piece, r.end = r.end, nil
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

var pngMagic = []byte("\x89PNG\r\n\x1a\n")

// clipboardContent is what a request puts on which selections.
func (s *Server) clipboardContent(schemas huma.Registry, schema *huma.Schema, in *clipboardInput) (desktop.Content, []desktop.Selection, error) {
	contentType, _, err := mime.ParseMediaType(in.contentType)
	switch {
	case err == nil && contentType == pngType:
		if !bytes.HasPrefix(in.RawBody, pngMagic) {
			return desktop.Content{}, nil, rest.InvalidArgument("body", "the body must be a PNG image")
		}
		// The buffer is used again after the request, the clipboard's not.
		return desktop.Content{Type: desktop.TypePNG, Data: bytes.Clone(in.RawBody)}, selections(in.Selection), nil
	case err != nil || contentType != fiber.MIMEApplicationJSON && !strings.HasSuffix(contentType, "+json"):
		return desktop.Content{}, nil, rest.UnsupportedMedia.Problem("unsupported media type: the body must be application/json or image/png")
	}
	var body clipboardBody
	if err := rest.DecodeInto(schemas, schema, in.RawBody, &body); err != nil {
		return desktop.Content{}, nil, err
	}
	to := in.Selection
	if body.Selection != nil {
		to = *body.Selection
	}
	return desktop.Content{Type: desktop.TypeText, Data: []byte(body.Text)}, selections(to), nil
}

func selections(name string) []desktop.Selection {
	if name == "both" {
		return []desktop.Selection{desktop.Clipboard, desktop.Primary}
	}
	return []desktop.Selection{desktop.Selection(name)}
}
