package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// recorder is a desktop that only notes what it is asked to do.
type recorder struct {
	anyDesktop
	got chan any
}

func (r *recorder) Status() desktop.Status { return desktop.Status{State: desktop.StateActive} }
func (r *recorder) Close() error           { return nil }

func (r *recorder) Move(_ context.Context, m desktop.Move) (desktop.Pointer, error) {
	r.got <- m
	return desktop.Pointer{Point: m.At}, nil
}

func (r *recorder) Click(_ context.Context, c desktop.Click) (desktop.Pointer, error) {
	r.got <- c
	return desktop.Pointer{Point: *c.At}, nil
}

func (r *recorder) Type(_ context.Context, t desktop.Type) error {
	r.got <- t
	return nil
}

func (r *recorder) Press(_ context.Context, p desktop.Press) error {
	r.got <- p
	return nil
}

func (r *recorder) Launch(_ context.Context, l desktop.Launch) (desktop.App, error) {
	r.got <- l
	return desktop.App{ProcessID: "proc_1"}, nil
}

func (r *recorder) SetClipboard(_ context.Context, c desktop.Content, _ ...desktop.Selection) error {
	r.got <- c
	return nil
}

// inProcess is a server without a network, whose main desktop is a recorder, or
// off. ask calls it.
type inProcess struct {
	*Server
	desk *recorder
}

func newInProcess(tb testing.TB, on bool) *inProcess {
	tb.Helper()
	p := &inProcess{desk: &recorder{got: make(chan any, 1)}}
	var err error
	p.Server, err = New(Config{
		NoToken: true, StateDir: tb.TempDir(), MaxBodyBytes: 4096,
		Start: func(context.Context, string, desktop.Config) (fleet.Desktop, error) { return p.desk, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	if on {
		if _, err := p.StartDesktop(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

func (p *inProcess) ask(ctx context.Context, method, path, kind string, body []byte) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, method, "http://localhost/", bytes.NewReader(body))
	path, req.URL.RawQuery, _ = strings.Cut(path, "?")
	req.URL.Path = path
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	rec := httptest.NewRecorder()
	p.Handler().ServeHTTP(rec, req)
	return rec
}

const jsonType = "application/json"

func TestWhatBodiesMean(t *testing.T) {
	t.Parallel()
	p := newInProcess(t, true)
	for _, tt := range []struct {
		path, body string
		want       any // nil: refused, with status
		status     int
	}{
		{"/mouse/move", `{"x":1,"y":2}`, desktop.Move{At: desktop.Point{X: 1, Y: 2}}, 200},
		{"/mouse/move", `{"x":0,"y":2147483647,"z":[{"q":null}],"observation":null,"modifiers":null}`, desktop.Move{At: desktop.Point{Y: 2147483647}}, 200},
		{"/mouse/move", ` { "x" : -0 , "y" : 2 } `, desktop.Move{At: desktop.Point{Y: 2}}, 200},
		// Which of two is meant, the one that was validated or the other?
		{"/mouse/move", `{"x":1,"y":2,"X":"no number"}`, nil, 400},
		{"/mouse/click", `{"x":1,"y":2,"button":"left","Button":"thumb"}`, nil, 400},
		{"/keyboard/press", `{"key":"a","modifiers":{"Ctrl":5,"ctrl":true}}`, nil, 400},
		{"/mouse/move", `{"x":1,"y":2,"y":3}`, desktop.Move{At: desktop.Point{X: 1, Y: 3}}, 200},
		{"/mouse/move", `{"x":1,"y":2,"X":null}`, nil, 400},
		{"/mouse/move", `{"z":1,"y":2}`, nil, 422},
		{"/mouse/move", `{"x":100.5,"y":2.4}`, desktop.Move{At: desktop.Point{X: 101, Y: 2}}, 200},
		{"/mouse/move", `{"x":1e2,"y":-0.4}`, desktop.Move{At: desktop.Point{X: 100}}, 200},
		{"/mouse/move", `{"x":2147483647.4,"y":2}`, nil, 422},
		{"/mouse/move", `{"x":1e999,"y":2}`, nil, 400},
		{"/mouse/move", `{"x":NaN,"y":2}`, nil, 400},
		{"/mouse/move", `{"x":Infinity,"y":2}`, nil, 400},
		{"/mouse/move", `{"x":-2147483649,"y":2}`, nil, 422},
		{"/mouse/move", `{"x":99999999999999999999999999,"y":2}`, nil, 422},
		{"/mouse/move", `{"x":true,"y":2}`, nil, 422},
		{"/mouse/move", `"x"`, nil, 422},
		{"/mouse/move", `null`, nil, 422},
		{"/mouse/move", `7`, nil, 422},
		{"/mouse/move", ` `, nil, 400},
		{"/mouse/move", `{"x":1,"y":2`, nil, 400},
		{"/mouse/move", `{"x":1,"y":2}{"x":1}`, nil, 400},
		{"/mouse/move", "\ufeff" + `{"x":1,"y":2}`, nil, 400},
		{"/mouse/move", `{"x":1,"y":2,"modifiers":["ctrl",1]}`, nil, 422},
		{"/mouse/move", `{"x":1,"y":2,"modifiers":"ctrl"}`, nil, 422},
		{"/mouse/click", `{"x":1,"y":2,"clickCount":4294967296}`, nil, 422},
		{"/mouse/click", `{"x":1,"y":2,"clickCount":4294967295}`, nil, 400},
		// Text arrives as it is, or not at all.
		{"/keyboard/type", `{"text":"a\u0000\u001b\ud83d\ude00\ufffd\\ud800","delayMs":0}`, desktop.Type{Text: "a\x00\x1b😀\ufffd\\ud800"}, 200},
		{"/keyboard/type", "{\"text\":\"a\xffb\"}", nil, 400},
		{"/keyboard/type", "{\"text\":\"a\xed\xa0\x80\"}", nil, 400}, // a surrogate as if it were UTF-8
		{"/keyboard/type", `{"text":"a\ud83d"}`, nil, 400},
		{"/keyboard/type", `{"text":"a\ude00\ud83d"}`, nil, 400},
		{"/keyboard/type", `{"text":"\ud83d\ud83d\ude00"}`, nil, 400},
		{"/keyboard/type", "{\"text\":\"a\x01\"}", nil, 400}, // control characters must be escaped
		{"/keyboard/type", `{"text":"a","delayMs":60001}`, nil, 400},
		{"/keyboard/type", `{"text":"a","delayMs":-1}`, nil, 422},
		{"/keyboard/type", `{"text":null}`, nil, 400}, // it may be left out for secret
		{"/launch", `{"app":"--help","args":["--","-x",""],"wait":null}`, desktop.Launch{App: "--help", Args: []string{"--", "-x", ""}}, 200},
		{"/launch", `{"app":"a","args":[null]}`, nil, 422},
		{"/launch", `{"app":["a"]}`, nil, 422},
		{"/launch", `{"app":"a","wait":"true"}`, nil, 422},
		{"/clipboard", `{"text":"x","Text":"y"}`, nil, 400},
		{"/clipboard", "{\"text\":\"a\xff\"}", nil, 400},
		{"/clipboard", `{"text":"x","selection":"both","other":1}`, desktop.Content{Type: desktop.TypeText, Data: []byte("x")}, 200},
		{"/clipboard", `{"text":1}`, nil, 422},
		{"/clipboard", ``, nil, 422},
	} {
		rec := p.ask(t.Context(), http.MethodPost, mainPath+tt.path, jsonType, []byte(tt.body))
		var got any
		select {
		case got = <-p.desk.got:
		default:
		}
		if rec.Code != tt.status {
			t.Errorf("%s %q = %d %s, want %d", tt.path, tt.body, rec.Code, rec.Body, tt.status)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %q did something else (-want +got):\n%s", tt.path, tt.body, diff)
		}
		if tt.status != 200 {
			checkProblem(t, rec)
		}
	}
}

// checkProblem fails the test unless a response is a complete problem document.
func checkProblem(t *testing.T, rec *httptest.ResponseRecorder) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Code, Field string
		Status                           int
		Errors                           []any
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	code, ok := strings.CutPrefix(p.Type, rest.TypePrefix)
	switch {
	case rec.Header().Get("Content-Type") != rest.ProblemType || !ok || p.Title == "" || p.Detail == "" || p.Status != rec.Code:
		t.Errorf("no complete problem: %s %s", rec.Header().Get("Content-Type"), rec.Body)
	case strings.HasPrefix(code, "desktop_") && p.Code != code:
		t.Errorf("code is not repeated: %s", rec.Body)
	case code == "desktop_invalid_action" && p.Field == "":
		t.Errorf("no field is named: %s", rec.Body)
	}
}

// TestCutOffBody is a client that announces more than it sends.
func TestCutOffBody(t *testing.T) {
	t.Parallel()
	p := newInProcess(t, true)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+mainPath+"/keyboard/type",
		&cutOff{strings.NewReader(`{"text":"half`)})
	req.Header.Set("Content-Type", jsonType)
	req.ContentLength = 100
	rec := httptest.NewRecorder()
	p.Handler().ServeHTTP(rec, req)
	if rec.Code < 400 {
		t.Errorf("a body that was cut off = %d %s", rec.Code, rec.Body)
	}
	select {
	case got := <-p.desk.got:
		t.Errorf("typed %v", got)
	default:
	}
	if rec := p.ask(t.Context(), http.MethodGet, "/v1/health", "", nil); rec.Code != 200 {
		t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
	}
}

// cutOff fails at its end.
type cutOff struct{ *strings.Reader }

func (c *cutOff) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err != nil {
		err = http.ErrBodyReadAfterClose
	}
	return n, err
}

// writes are the routes with a body that do nothing while the desktop is off.
func (p *inProcess) writes() []string {
	var paths []string
	for path, item := range p.rest.Huma.OpenAPI().Paths {
		if item.Post != nil && item.Post.RequestBody != nil && strings.HasPrefix(path, mainPath+"/") && path != mainPath+"/start" {
			paths = append(paths, strings.ReplaceAll(path, "{id}", "1"))
		}
	}
	slices.Sort(paths)
	return paths
}

// FuzzBody sends any body to any route: it is refused with a problem, never
// with a fault of the server.
func FuzzBody(f *testing.F) {
	p := newInProcess(f, false)
	paths := p.writes()
	if len(paths) < 12 {
		f.Fatalf("routes with a body: %v", paths)
	}
	for i := range paths {
		for _, body := range []string{`{}`, `{"x":1,"y":2}`, `{"text":"a"}`, `{"key":"a","modifiers":{"ctrl":null}}`, `[[[[`, `{"width":1,"height":1e3}`} {
			f.Add(uint8(i), jsonType, []byte(body))
		}
	}
	f.Add(uint8(0), "image/png", []byte(pngMagic))
	f.Add(uint8(3), "application/x+json; charset=\xff", []byte("{\"text\":\"\\ud800\"}"))
	allowed := []int{400, 404, 409, 413, 415, 422}
	f.Fuzz(func(t *testing.T, route uint8, kind string, body []byte) {
		path := paths[int(route)%len(paths)]
		if strings.ContainsFunc(kind, unicode.IsControl) {
			t.Skip("no header")
		}
		rec := p.ask(t.Context(), http.MethodPost, path, kind, body)
		if !slices.Contains(allowed, rec.Code) {
			t.Fatalf("%s %q %q = %d %s", path, kind, body, rec.Code, rec.Body)
		}
		checkProblem(t, rec)
	})
}

// FuzzQuery does the same with the queries of pictures.
func FuzzQuery(f *testing.F) {
	p := newInProcess(f, false)
	for _, q := range []string{"", "format=png&scale=NaN", "x=1&y=2&width=3&height=4", "quality=1e3", "x=%ff&&=&y", "scale=0x1p-2", "settleMs=-1", "showCursor=True;"} {
		f.Add(true, q)
		f.Add(false, q)
	}
	f.Fuzz(func(t *testing.T, region bool, query string) {
		path := mainPath + "/screenshot"
		if region {
			path += "/region"
		}
		if strings.ContainsFunc(query, unicode.IsControl) || strings.ContainsAny(query, "# ") {
			t.Skip("no query")
		}
		rec := p.ask(t.Context(), http.MethodGet, path+"?"+query, "", nil)
		if rec.Code != 400 && rec.Code != 409 {
			t.Fatalf("%s?%s = %d %s", path, query, rec.Code, rec.Body)
		}
		checkProblem(t, rec)
	})
}

// FuzzText types any text: it arrives unchanged, or is refused.
func FuzzText(f *testing.F) {
	p := newInProcess(f, true)
	for _, text := range []string{"a", "\x00\x7f", "é漢😀\u2028<&>", `\ud800`, "\xff", "\ufffd", "\"\\\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || len(text) > 500 {
			t.Skip("empty, or perhaps larger than the limit")
		}
		var body bytes.Buffer
		body.WriteString(`{"text":"`)
		for _, c := range []byte(text) { // escapes only what must be
			switch {
			case c == '"' || c == '\\':
				body.WriteByte('\\')
				body.WriteByte(c)
			case c < ' ':
				body.WriteString(`\u00` + strconv.FormatInt(int64(c)+0x100, 16)[1:])
			default:
				body.WriteByte(c)
			}
		}
		body.WriteString(`"}`)
		rec := p.ask(t.Context(), http.MethodPost, mainPath+"/keyboard/type", jsonType, body.Bytes())
		if !utf8.ValidString(text) {
			if rec.Code != 400 {
				t.Fatalf("%q = %d %s, want 400", text, rec.Code, rec.Body)
			}
			return
		}
		if rec.Code != 200 {
			t.Fatalf("%q = %d %s", text, rec.Code, rec.Body)
		}
		if got := (<-p.desk.got).(desktop.Type); got.Text != text {
			t.Fatalf("typed %q, want %q", got.Text, text)
		}
	})
}

func TestMemberOf(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	for _, c := range []struct{ path, body, field string }{
		{"/v1/desktop/launch", `{}`, "app"},
		{"/v1/desktop/mouse/move", `{"y":1}`, "x"},
		{"/v1/desktop/mouse/move", `{"x":99999999999,"y":1}`, "x"},
		{"/v1/desktop/start", `{"width":99999999999}`, "width"},
	} {
		a := s.do(t, call{path: c.path, body: c.body}).want(t, 422)
		errs, _ := a.json(t)["errors"].([]any)
		if len(errs) != 1 || errs[0].(map[string]any)["field"] != c.field || strings.Contains(string(a.body), "Go struct") {
			t.Errorf("%s %s: %s, want the field %s named", c.path, c.body, a.body, c.field)
		}
	}
}
