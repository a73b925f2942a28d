package desktops

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

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

type clipboardQuery struct {
	Desktop   string `path:"desktop" default:"main"`
	Selection string `query:"selection" enum:"clipboard,primary" default:"clipboard" doc:"primary is the latest selected text"`
	Format    string `query:"format" enum:"text,png" default:"text" doc:"With png, the response is the image"`
}

type clipboardText struct {
	Text      string `json:"text" doc:"Empty if the selection holds no text"`
	Selection string `json:"selection"`
}

type clipboardBody struct {
	Text      string  `json:"text"`
	Selection *string `json:"selection,omitempty" enum:"clipboard,primary,both" doc:"Defaults to clipboard"`
}

// clipboardInput has its body raw: it may be JSON or an image.
type clipboardInput struct {
	Desktop   string `path:"desktop" default:"main"`
	Selection string `query:"selection" enum:"clipboard,primary,both" default:"clipboard" doc:"Selection for an image; text has it in its body"`
	RawBody   []byte
}

func (a *Area) registerClipboard() {
	schemas := a.Huma.OpenAPI().Components.Schemas
	text := schemas.Schema(reflect.TypeFor[clipboardText](), true, "ClipboardText")
	body := schemas.Schema(reflect.TypeFor[clipboardBody](), true, "ClipboardBody")
	r := rest.Route{Tag: "Clipboard", Other: inputFailed, Scope: grants.ScopeControl, Errors: []int{http.StatusBadGateway}}
	read := r.Get("readClipboard", "/clipboard", "Get the clipboard").WithErrors(http.StatusNotAcceptable)
	read.Content, read.Large = map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: text}, desktop.TypePNG: rest.Binary()}, true
	act(a, read, a.readClipboard)
	write := r.Post("writeClipboard", "/clipboard", "Set the clipboard to a text or a PNG image").
		WithAbout("The body may be 16 times as large as for other calls: 32 MiB by default.")
	write.Body = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		fiber.MIMEApplicationJSON: {Schema: body}, desktop.TypePNG: rest.Binary(),
	}}
	write.Most = ClipboardFactor * a.cfg.MaxBodyBytes
	act(a, write, func(ctx context.Context, in *clipboardInput) (*rest.OKOutput, error) {
		content, to, bad := in.content(rest.RequestIn(ctx).Header(fiber.HeaderContentType), schemas, body)
		d, err := running[computer.Clipboards](a, in.Desktop, bad)
		if err != nil {
			return nil, err
		}
		err = d.SetClipboard(ctx, content, to...)
		if bad, ok := errors.AsType[*desktop.InvalidError](err); ok && bad.Field == "Data" && content.Type == desktop.TypePNG {
			return nil, invalidArgument("image", "image "+bad.Reason)
		}
		return rest.OKOr(err)
	})
}

func (a *Area) readClipboard(ctx context.Context, in *clipboardQuery) (*rest.BodyOutput, error) {
	d, err := running[computer.Clipboards](a, in.Desktop)
	if err != nil {
		return nil, err
	}
	kind, contentType := desktop.TypeText, fiber.MIMEApplicationJSON
	if in.Format == "png" {
		kind, contentType = desktop.TypePNG, desktop.TypePNG
	}
	c, err := d.Clipboard(ctx, desktop.Selection(in.Selection), kind)
	if err != nil && (in.Format == "png" || !errors.Is(err, desktop.ErrNoClipboardContent)) {
		return nil, err
	}
	return &rest.BodyOutput{ContentType: contentType, Body: func(ctx huma.Context) {
		ctx.SetStatus(http.StatusOK)
		if in.Format == "png" {
			rest.RequestOf(ctx).Send(c.Data)
			return
		}
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
	name, _ := plainjson.Marshal(selection) // a string has no error
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
			piece, err := plainjson.Marshal(string(r.text[:n]))
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

const pngMagic = "\x89PNG\r\n\x1a\n"

// content returns what a request puts on which selections.
func (in *clipboardInput) content(contentType string, schemas huma.Registry, schema *huma.Schema) (c desktop.Content, to []desktop.Selection, err error) {
	selection := in.Selection
	contentType, _, err = mime.ParseMediaType(contentType)
	switch {
	case err == nil && contentType == desktop.TypePNG:
		if !bytes.HasPrefix(in.RawBody, []byte(pngMagic)) {
			return c, nil, invalidArgument("body", "the body must be a PNG image")
		}
		// The buffer is used again after the request, the clipboard's is not.
		c = desktop.Content{Type: desktop.TypePNG, Data: bytes.Clone(in.RawBody)}
	case err != nil || contentType != fiber.MIMEApplicationJSON && !strings.HasSuffix(contentType, "+json"):
		return c, nil, rest.UnsupportedMedia.Problem("unsupported media type: the body must be application/json or image/png")
	default:
		var body clipboardBody
		if err := rest.DecodeInto(schemas, schema, in.RawBody, &body); err != nil {
			return c, nil, err
		}
		if body.Selection != nil {
			selection = *body.Selection
		}
		c = desktop.Content{Type: desktop.TypeText, Data: []byte(body.Text)}
	}
	if selection == "both" {
		return c, []desktop.Selection{desktop.Clipboard, desktop.Primary}, nil
	}
	return c, []desktop.Selection{desktop.Selection(selection)}, nil
}
