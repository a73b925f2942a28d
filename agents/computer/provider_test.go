package computer_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
)

// transcript is a call of a model, and what it has to do.
type transcript struct {
	Call    json.RawMessage `json:"call"`
	Does    []string        `json:"does"`    // the desktop's actions
	Says    string          `json:"says"`    // part of the result's text
	Fails   bool            `json:"fails"`   // the result is an error
	Picture bool            `json:"picture"` // the result has a picture
}

// TestTranscripts executes a call of each action of each provider, and compares the
// desktop's actions.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for _, p := range []computer.Provider{computer.Anthropic, computer.OpenAI, computer.Gemini} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 1000, Height: 500}})
			xterm(t, d, "cat")
			s, err := computer.NewServer(d, computer.Config{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile("testdata/" + string(p) + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var all []transcript
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				events := d.Subscribe(0)
				result, err := s.Call(t.Context(), p, c.Call)
				events.Finish()
				defer events.Close()
				if err != nil {
					t.Fatalf("%s: %v", c.Call, err)
				}
				var did []string
				for e := range events.Events() {
					if e.Action != nil {
						did = append(did, actionText(e.Action))
					}
				}
				if !slices.Equal(did, c.Does) {
					t.Errorf("%s\ndid %q instead of %q", c.Call, did, c.Does)
				}
				got := readResult(t, result)
				if got.failed != c.Fails || (got.image != nil) != c.Picture || !strings.Contains(got.text, c.Says) {
					t.Errorf("%s\nfailed %v, picture %v: %s", c.Call, got.failed, got.image != nil, got.text)
				}
			}
		})
	}
}

// actionText returns an action in one line.
func actionText(a *desktop.Action) string {
	text := string(a.Name)
	for _, s := range []string{string(a.Button), a.Keys, a.Text} {
		if s != "" {
			text += " " + s
		}
	}
	if a.Count != 0 {
		text += fmt.Sprintf(" %d", a.Count)
	}
	for _, p := range []*desktop.Point{a.Delta, a.At, a.To} {
		if p != nil {
			text += fmt.Sprintf(" %d,%d", p.X, p.Y)
		}
	}
	return text
}

// readResult reads a result of any provider.
func readResult(t *testing.T, result any) answer {
	t.Helper()
	raw, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		Text   string
		Data   []byte
		Source struct{ Data []byte }
		Inline struct{ Data []byte } `json:"inlineData"`
	}
	var r struct {
		Content []part // Anthropic
		IsError bool   `json:"is_error"`
		Failed  bool   `json:"isError"` // Anthropic, from the input alone
		Output  struct {
			Image string `json:"image_url"`
		} // OpenAI
		Status   string
		Parts    []part // Gemini
		Response struct{ Output, Error string }
		Result   []part // Gemini's Interactions API
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%v: %.300s", err, raw)
	}
	got := answer{text: r.Response.Output + r.Response.Error, failed: r.IsError || r.Failed || r.Status == "incomplete" || r.Response.Error != ""}
	if incomplete, ok := result.(interface{ Problem() string }); ok {
		got.text = incomplete.Problem()
	}
	var picture []byte
	for _, p := range slices.Concat(r.Content, r.Parts, r.Result) {
		got.text += p.Text
		picture = slices.Concat(picture, p.Data, p.Source.Data, p.Inline.Data)
	}
	if _, encoded, ok := strings.Cut(r.Output.Image, ";base64,"); ok {
		if picture, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			t.Fatal(err)
		}
	}
	if picture != nil {
		if got.image, got.format, err = image.Decode(bytes.NewReader(picture)); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// TestProviderArguments checks what no provider would send.
func TestProviderArguments(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 3840, Height: 2160}})
	s, err := computer.NewServer(d, computer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	invalid := func(field string, err error) {
		t.Helper()
		var bad *computer.InvalidError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%v; it should name %s", err, field)
		}
	}
	_, err = s.Tool("mistral", "")
	invalid("provider", err)
	_, err = s.Tool(computer.Anthropic, "20991231")
	invalid("version", err)
	for _, c := range []struct {
		provider    computer.Provider
		call, field string
	}{
		{"mistral", `{}`, "provider"},
		{computer.Anthropic, `[]`, "call"},
		{computer.Anthropic, `{}`, "input"},
		{computer.OpenAI, `{"call_id":"1"}`, "action"},
		{computer.OpenAI, `{"action":{},"actions":[]}`, "actions"},
		{computer.Gemini, `{"args":{}}`, "name"},
	} {
		_, err := s.Call(t.Context(), c.provider, json.RawMessage(c.call))
		invalid(c.field, err)
	}
	// The definition has the size of the pictures.
	tool, err := s.Tool(computer.Anthropic, "")
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Call(t.Context(), computer.Anthropic, json.RawMessage(`{"input":{"action":"screenshot"}}`))
	if err != nil {
		t.Fatal(err)
	}
	size := readResult(t, result).image.Bounds().Size()
	if tool["display_width_px"] != size.X || tool["display_height_px"] != size.Y || size.X >= 3840 {
		t.Errorf("the tool is %v and a screenshot %v", tool, size)
	}
}

// TestGeminiPages uses a browser for functions of pages.
func TestGeminiPages(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	var did []string
	s, err := computer.NewServer(d, computer.Config{
		Browser: func(_ context.Context, command string, args json.RawMessage) (json.RawMessage, error) {
			did = append(did, command+" "+string(args))
			switch {
			case strings.Contains(string(args), "nowhere"):
				return nil, errors.New("the page did not load")
			case command == "tabs":
				return json.RawMessage(`[]`), nil
			}
			return json.RawMessage(`{"url":"https://example.com/"}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ call, does, says string }{
		{`{"name":"open_web_browser","args":{}}`, `tabs {}`, `screenshot is`},
		{`{"name":"navigate","args":{"url":"https://example.com"}}`, `navigate {"url":"https://example.com"}`, `"url":"https://example.com/"`},
		{`{"name":"search"}`, `navigate {"url":"https://www.google.com"}`, `"url"`},
		{`{"name":"go_back","args":{}}`, `back {}`, `"url"`},
		{`{"type":"function_call","id":"1","name":"go_forward","arguments":{}}`, `forward {}`, `\"url\"`},
		{`{"name":"navigate","args":{"url":"https://nowhere"}}`, `navigate {"url":"https://nowhere"}`, `"error":"the page did not load.`},
		{`{"name":"navigate","args":{}}`, ``, `"error":"url: is missing`},
	} {
		did = nil
		result, err := s.Call(t.Context(), computer.Gemini, json.RawMessage(c.call))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(did, ";") != c.does || !strings.Contains(string(raw), c.says) || readResult(t, result).image == nil {
			t.Errorf("%s did %q and says %.200s", c.call, did, raw)
		}
	}
}
