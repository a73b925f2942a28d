package httpapi

import (
	"strings"
	"testing"
)

// TestRefusals sends what cannot be accepted while the desktop is off. Whatever
// is wrong with a request is told before that.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{MaxBodyBytes: 1000})
	const d = "/v1/desktop"
	for _, tc := range []struct {
		name   string
		call   call
		status int
		code   string
		detail string // part of it
	}{
		{"no such route", call{path: "/v1/nothing", anon: true}, 404, "invalid_request", "endpoint not found"},
		{"no such page", call{path: "/ui/nothing.js"}, 404, "invalid_request", "endpoint not found"},
		{"trailing slash", call{path: d + "/status/"}, 404, "invalid_request", "endpoint not found"},
		{"other case", call{path: "/V1/desktop/status"}, 404, "invalid_request", "endpoint not found"},
		{"wrong method", call{method: "DELETE", path: d + "/start"}, 405, "invalid_request", "use POST"},
		{"unknown desktop", call{path: "/v1/desktops/absent/status"}, 404, "not_found", "desktop absent"},

		{"no type", call{method: "POST", path: d + "/mouse/move", body: `{"x":1,"y":1}`, kind: "-"}, 415, "unsupported_media_type", "application/json"},
		{"no scroll", call{path: d + "/mouse/scroll", body: `{"x":1,"y":1}`}, 400, "desktop_invalid_action", "deltaX or deltaY must be given"},
		{"form", call{path: d + "/mouse/move", body: `x=1`, kind: "application/x-www-form-urlencoded"}, 415, "unsupported_media_type", "application/json"},
		{"text", call{path: d + "/start", body: `{}`, kind: "text/plain"}, 415, "unsupported_media_type", "application/json"},
		{"no JSON", call{path: d + "/mouse/move", body: `{"x":`}, 400, "invalid_request", "body"},
		{"trailing text", call{path: d + "/mouse/move", body: `{"x":1,"y":1} x`}, 400, "invalid_request", "body"},
		{"an array", call{path: d + "/mouse/move", body: `[1,1]`}, 422, "invalid_request", "object"},
		{"missing member", call{path: d + "/mouse/move", body: `{"x":1}`}, 422, "invalid_request", "y"},
		{"null member", call{path: d + "/mouse/move", body: `{"x":1,"y":null}`}, 422, "invalid_request", "y"},
		{"no body", call{method: "POST", path: d + "/mouse/move"}, 422, "invalid_request", "x"},
		{"fraction", call{path: d + "/start", body: `{"width":1.5}`}, 422, "invalid_request", "width: expected integer"},
		{"text for a number", call{path: d + "/mouse/move", body: `{"x":"1","y":1}`}, 422, "invalid_request", "x"},
		{"beyond 32 bits", call{path: d + "/mouse/move", body: `{"x":2147483648,"y":1}`}, 422, "invalid_request", "x"},
		{"negative count", call{path: d + "/mouse/click", body: `{"x":1,"y":1,"clickCount":-1}`}, 422, "invalid_request", "clickCount"},
		{"unknown button", call{path: d + "/mouse/click", body: `{"x":1,"y":1,"button":"thumb"}`}, 422, "invalid_request", "button"},
		{"negative width", call{path: d + "/start", body: `{"width":-1}`}, 422, "invalid_request", "width"},
		{"bad modifier value", call{path: d + "/keyboard/press", body: `{"key":"a","modifiers":{"ctrl":1}}`}, 422, "invalid_request", "ctrl"},
		{"large body", call{path: d + "/keyboard/type", body: `{"text":"` + strings.Repeat("x", 1000) + `"}`}, 413, "invalid_request", "1000 bytes"},
		{"clipboard without text", call{path: d + "/clipboard", body: `{}`}, 422, "invalid_request", "text"},
		{"clipboard selection", call{path: d + "/clipboard", body: `{"text":"x","selection":"zz"}`}, 422, "invalid_request", "selection"},
		{"clipboard type", call{path: d + "/clipboard", body: `x`, kind: "image/gif"}, 415, "unsupported_media_type", "image/png"},
		{"clipboard no image", call{path: d + "/clipboard", body: `x`, kind: "image/png"}, 400, "desktop_invalid_action", "PNG"},
		{"clipboard large", call{path: d + "/clipboard", body: `{"text":"` + strings.Repeat("x", 16000) + `"}`}, 413, "invalid_request", "16000 bytes"},

		{"format", call{path: d + "/screenshot?format=JPEG"}, 400, "invalid_request", "png"},
		{"format gif", call{path: d + "/screenshot?format=gif"}, 400, "invalid_request", "format"},
		{"quality text", call{path: d + "/screenshot?quality=x"}, 400, "invalid_request", "quality"},
		{"boolean 1", call{path: d + "/screenshot?showCursor=1"}, 400, "invalid_request", "true or false"},
		{"given twice", call{path: d + "/screenshot?scale=1&scale=0.5"}, 400, "invalid_request", "once"},
		{"region without y", call{path: d + "/screenshot/region?x=1&width=2&height=2"}, 400, "invalid_request", "y"},
		{"negative region width", call{path: d + "/screenshot/region?x=1&y=1&width=-2&height=2"}, 400, "invalid_request", "width"},
		{"region beyond 32 bits", call{path: d + "/screenshot/region?x=4294967296&y=1&width=2&height=2"}, 400, "invalid_request", "x"},
		{"selection", call{path: d + "/clipboard?selection=zz"}, 400, "invalid_request", "selection"},
		{"event id", call{path: d + "/events", header: map[string]string{"Last-Event-ID": "x"}}, 400, "invalid_request", "Last-Event-ID"},

		{"quality 0", call{path: d + "/screenshot?quality=0"}, 400, "desktop_invalid_action", "quality must be between 1 and 100"},
		{"quality 101", call{path: d + "/screenshot?quality=101"}, 400, "desktop_invalid_action", "quality must be between 1 and 100"},
		{"scale", call{path: d + "/screenshot?scale=0.05"}, 400, "desktop_invalid_action", "scale must be between 0.1 and 1.0"},
		{"scale NaN", call{path: d + "/screenshot?scale=NaN"}, 400, "desktop_invalid_action", "scale must be between 0.1 and 1.0"},
		{"region at -1", call{path: d + "/screenshot/region?x=-1&y=1&width=2&height=2"}, 400, "desktop_invalid_action", "Desktop coordinates must be non-negative"},
		{"empty region", call{path: d + "/screenshot/region?x=1&y=1&width=0&height=2"}, 400, "desktop_invalid_action", "greater than 0"},
		{"negative place", call{path: d + "/mouse/move", body: `{"x":-1,"y":1}`}, 400, "desktop_invalid_action", "non-negative"},
		{"no clicks", call{path: d + "/mouse/click", body: `{"x":1,"y":1,"clickCount":0}`}, 400, "desktop_invalid_action", "clickCount must be greater than 0"},
		{"many clicks", call{path: d + "/mouse/click", body: `{"x":1,"y":1,"clickCount":101}`}, 400, "desktop_invalid_action", "clickCount"},
		{"half a place", call{path: d + "/mouse/down", body: `{"x":1}`}, 400, "desktop_invalid_action", "x and y must both be provided"},
		{"negative end", call{path: d + "/mouse/drag", body: `{"startX":1,"startY":1,"endX":1,"endY":-1}`}, 400, "desktop_invalid_action", "non-negative"},
		{"slow typing", call{path: d + "/keyboard/type", body: `{"text":"x","delayMs":10001}`}, 400, "desktop_invalid_action", "delayMs must be at most 10000"},
		{"no text", call{path: d + "/keyboard/type", body: `{"text":""}`}, 400, "desktop_invalid_action", "text must not be empty"},
		{"no key", call{path: d + "/keyboard/press", body: `{"key":" "}`}, 400, "desktop_invalid_action", "key must not be empty"},
		{"no key down", call{path: d + "/keyboard/down", body: `{"key":""}`}, 400, "desktop_invalid_action", "key must not be empty"},
		{"window of no size", call{path: d + "/windows/1/resize", body: `{"width":0,"height":5}`}, 400, "desktop_invalid_action", "width"},
		{"screen too large", call{path: d + "/resize", body: `{"width":100,"height":99999}`}, 400, "desktop_invalid_action", "height"},

		{"start without width", call{path: d + "/start", body: `{"width":0}`}, 400, "desktop_invalid_action", "Desktop width and height must be greater than 0"},
		{"start without dpi", call{path: d + "/start", body: `{"dpi":0}`}, 400, "desktop_invalid_action", "Desktop dpi must be greater than 0"},
		{"start on display 0", call{path: d + "/start", body: `{"displayNum":0}`}, 400, "desktop_invalid_action", "displayNum must be > 0"},
		{"frame rate", call{path: d + "/start", body: `{"recordingFps":61}`}, 400, "desktop_invalid_action", "recordingFps"},
		{"stream rate", call{path: d + "/start", body: `{"streamFrameRate":0}`}, 400, "desktop_invalid_action", "streamFrameRate"},
		{"codec", call{path: d + "/start", body: `{"streamVideoCodec":"av1"}`}, 400, "desktop_invalid_action", "streamVideoCodec"},
		{"empty codec", call{path: d + "/start", body: `{"streamVideoCodec":""}`}, 400, "desktop_invalid_action", "streamVideoCodec"},
		{"two codecs", call{path: d + "/start", body: `{"streamVideoCodec":"vp8,vp9"}`}, 400, "desktop_invalid_action", "streamVideoCodec"},
		{"audio", call{path: d + "/start", body: `{"streamAudioCodec":"mp3"}`}, 400, "desktop_invalid_action", "streamAudioCodec"},
		{"ports", call{path: d + "/start", body: `{"webrtcPortRange":"9-8"}`}, 400, "desktop_invalid_action", "webrtcPortRange"},
		{"desktop id", call{path: "/v1/desktops", body: `{"id":"../x"}`}, 400, "desktop_invalid_action", "id must match"},
		{"taken id", call{path: "/v1/desktops", body: `{"id":"main"}`}, 409, "conflict", "main"},

		{"screenshot off", call{path: d + "/screenshot"}, 409, "desktop_runtime_inactive", "has not been started"},
		{"move off", call{path: d + "/mouse/move", body: `{"x":1,"y":1,"unknown":{"a":null}}`}, 409, "desktop_runtime_inactive", "has not been started"},
		{"null is absent", call{path: d + "/keyboard/press", body: `{"key":"a","modifiers":null}`}, 409, "desktop_runtime_inactive", "has not been started"},
		{"JSON with charset", call{path: d + "/mouse/move", body: `{"x":1,"y":1}`, kind: "application/json; charset=utf-8"}, 409, "desktop_runtime_inactive", "start"},
		{"JSON by suffix", call{path: d + "/mouse/move", body: `{"x":1,"y":1}`, kind: "application/vnd.x+json"}, 409, "desktop_runtime_inactive", "start"},
		{"empty body", call{method: "POST", path: d + "/mouse/down"}, 409, "desktop_runtime_inactive", "start"},
		{"unknown query", call{path: d + "/screenshot?unknown=1&unknown=2"}, 409, "desktop_runtime_inactive", "start"},
		{"events off", call{path: d + "/events"}, 409, "desktop_runtime_inactive", "start"},
		{"body at the limit", call{path: d + "/keyboard/type", body: `{"text":"` + strings.Repeat("x", 1000-11) + `"}`}, 409, "desktop_runtime_inactive", "start"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := s.do(t, tc.call).problem(t, tc.status, tc.code)
			if detail := p["detail"].(string); !strings.Contains(detail, tc.detail) {
				t.Errorf("detail = %q, want it to have %q", detail, tc.detail)
			}
			if strings.HasPrefix(tc.code, "desktop_") && p["code"] != tc.code {
				t.Errorf("code = %v, want %v", p["code"], tc.code)
			}
			if tc.code == "desktop_invalid_action" && p["field"] == nil {
				t.Errorf("no field is named: %v", p)
			}
		})
	}
}

func TestMethodNotAllowedNamesMethods(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if got := s.do(t, call{method: "PUT", path: "/v1/desktop/clipboard"}).want(t, 405).Header.Values("Allow"); strings.Join(got, ", ") != "GET, HEAD, POST" {
		t.Errorf("Allow = %q", got)
	}
}

// TestSecretsAreNotRepeated: what was refused may be a password.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	a := s.post(t, "/v1/desktop/keyboard/type", `{"text":["hunter2"]}`)
	a.problem(t, 422, "invalid_request")
	if strings.Contains(string(a.body), "hunter2") {
		t.Errorf("the refused value is in the answer: %s", a.body)
	}
}
