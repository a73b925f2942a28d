package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// pageOfBrowser has what the routes of browsers use.
const pageOfBrowser = `<!doctype html><title>Form</title><style>body{height:3000px}</style>
<input id=name aria-label=Name><select aria-label=Fruit><option>apple<option>pear</select><input type=file aria-label=File>
<button onclick="document.title = 'asked ' + confirm('Sure?')">Ask</button> <a href=/data download=data.txt>Data</a>
<script>localStorage.kept = 'yes'; document.cookie = 'crumb=1; path=/'; console.log('hello ' + navigator.userAgent); fetch('/data')</script>`

// TestBrowserRoutes uses all routes of the browser of a desktop.
func TestBrowserRoutes(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/data" {
			w.Header().Set("Content-Type", "application/octet-stream")
			fmt.Fprint(w, "downloaded")
			return
		}
		fmt.Fprint(w, pageOfBrowser)
	}))
	defer site.Close()
	s := startReal(t, Config{}, `{"width":1000,"height":800}`)
	events := s.follow(t.Context(), t, mainPath+"/events?access_token="+s.Token(), nil)
	const at = "/v1/desktop/browser"
	s.get(t, at+"/outline").problem(t, 409, "browser_not_running")
	post := func(route, body string) map[string]any {
		t.Helper()
		return s.post(t, at+route, body).want(t, 200).json(t)
	}
	get := func(route string) string {
		t.Helper()
		return string(s.get(t, at+route).want(t, 200).body)
	}
	has := func(what, text, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("%s: %.500s lacks %s", what, text, want)
		}
	}
	post("/start", `{"url":"`+site.URL+`","profile":"work","userAgent":"Tester/1","viewport":{"width":700,"height":500},"args":["--lang=en"],"dialogs":"leave"}`)
	post("/wait", `{"until":"load","text":"Ask","url":"127.0.0.1"}`)
	has("state", get(""), `"profile":"work"`)
	has("version", get("/json/version"), `"webSocketDebuggerUrl":"ws://`)
	eventually(t, "a target with a title", func() bool { return strings.Contains(get("/json/list"), `"title":"Form"`) })
	size := post("/evaluate", `{"expression":"[innerWidth, innerHeight, navigator.userAgent].join()"}`)
	has("evaluate", fmt.Sprint(size), "700,500,Tester/1")

	outline := func() string {
		var o struct{ Outline string }
		if err := json.Unmarshal([]byte(get("/outline")), &o); err != nil {
			t.Fatal(err)
		}
		return o.Outline
	}
	ref := func(what string) string {
		t.Helper()
		m := regexp.MustCompile(`(@e\d+) ` + what).FindStringSubmatch(outline())
		if m == nil {
			t.Fatalf("no %s in %s", what, outline())
		}
		return m[1]
	}
	post("/fill", `{"ref":"`+ref(`textbox "Name"`)+`","text":"Ada"}`)
	post("/press", `{"ref":"`+ref(`textbox "Name"`)+`","keys":"End"}`)
	post("/press", `{"keys":"x"}`)
	post("/select", `{"ref":"`+ref(`combobox "Fruit"`)+`","values":["pear"]}`)
	home := s.desktop(t).Status().Home
	if err := os.WriteFile(filepath.Join(home, "up.txt"), []byte("up"), 0o600); err != nil {
		t.Fatal(err)
	}
	post("/upload", `{"selector":"input[type=file]","files":["up.txt"]}`)
	values := post("/evaluate", `{"expression":"[...document.querySelectorAll('input,select')].map((e) => e.files ? e.files[0].name : e.value).join()"}`)
	has("form", fmt.Sprint(values), "Adax,pear,up.txt")

	post("/click", `{"ref":"`+ref(`button "Ask"`)+`"}`)
	eventually(t, "a dialog", func() bool { return strings.Contains(get("/tabs"), `"message":"Sure?"`) })
	post("/dialog", `{"accept":true}`)
	has("answer to the dialog", fmt.Sprint(post("/evaluate", `{"expression":"document.title"}`)), "asked true")
	post("/click", `{"selector":"a"}`)
	eventually(t, "a download", func() bool { return strings.Contains(get("/downloads"), `"state":"completed"`) })
	if text, err := os.ReadFile(filepath.Join(home, "Downloads", "data.txt")); err != nil || string(text) != "downloaded" {
		t.Errorf("downloaded %q, %v", text, err)
	}
	has("text", get("/text"), "Ask")
	has("console", get("/console"), "hello Tester/1")
	has("network", get("/network"), `"type":"Document"`)
	for _, height := range []struct {
		query string
		want  int
	}{{"", 500}, {"?full=true", 3000}} {
		picture, err := png.DecodeConfig(bytes.NewReader(s.get(t, at+"/screenshot"+height.query).want(t, 200).body))
		if err != nil || picture.Height < height.want || picture.Height > height.want+100 {
			t.Errorf("screenshot%s: %+v, %v", height.query, picture, err)
		}
	}
	if pdf := s.post(t, at+"/pdf", `{"landscape":true}`).want(t, 200).body; !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("pdf: %.20q", pdf)
	}

	state := get("/state")
	has("state", state, `"name":"kept","value":"yes"`)
	has("state", state, `"name":"crumb"`)
	post("/evaluate", `{"expression":"localStorage.clear(), document.cookie = 'crumb=; max-age=0'"}`)
	s.put(t, at+"/state", state).want(t, 200)
	has("restored", fmt.Sprint(post("/evaluate", `{"expression":"localStorage.kept + document.cookie"}`)), "yescrumb=1")

	post("/navigate", `{"url":"`+site.URL+`/second"}`)
	has("back", fmt.Sprint(post("/back", `{}`)), site.URL)
	has("forward", fmt.Sprint(post("/forward", `{}`)), "/second")
	has("reload", fmt.Sprint(post("/reload", `{}`)), "/second")
	tab := post("/tabs", `{"url":"about:blank"}`)["id"].(string)
	has("tabs", get("/tabs"), tab)
	post("/tabs/"+tab+"/activate", `{}`)
	s.do(t, call{method: "DELETE", path: at + "/tabs/" + tab})
	if tabs := get("/tabs"); strings.Contains(tabs, tab) {
		t.Errorf("the closed tab is there: %s", tabs)
	}
	has("stop", fmt.Sprint(post("/stop", `{}`)), "stopped")
	post("/start", `{"headless":true,"url":"about:blank"}`)
	has("headless", get(""), `"state":"running"`)
	seen := map[string]bool{}
	for !seen["navigated"] || !seen["dialog"] || !seen["download"] {
		e := <-events
		if e.event != "browser" {
			continue
		}
		for _, what := range []string{"navigated", "dialog", "download"} {
			seen[what] = seen[what] || strings.Contains(e.data, what)
		}
	}
}
