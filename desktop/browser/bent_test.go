package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestClickInBentFrame: an element of a frame that is scaled or turned is clicked or refused, and
// never is another one clicked, whether the frame has a process of its own or not.
func TestClickInBentFrame(t *testing.T) {
	t.Parallel()
	var other string
	mux := http.NewServeMux()
	mux.HandleFunc("/frame", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for i := range 6 {
			fmt.Fprintf(w, `<button style="display:block;height:30px;width:150px" onclick="parent.postMessage(this.innerText,'*')">Button %d</button>`, i)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		source := "/frame"
		if r.FormValue("other") != "" {
			source = other + source
		}
		fmt.Fprintf(w, `<!doctype html><title>none</title><body style="margin:0;%s"><p style="margin:0" id=said></p><script>onmessage = (e) => { said.textContent = 'clicked'; document.title = e.data }</script>
			<div style="%s"><iframe style="width:300px;height:220px;%s" src=%s></iframe></div>`, r.FormValue("body"), r.FormValue("div"), r.FormValue("frame"), source)
	})
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	other = strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
	b := start(t, browser.Config{Desktop: startDesktop(t, desktop.Config{}), Args: []string{"--site-per-process"}})
	for style, clicked := range map[string]bool{
		"frame=": true, "frame=transform:translate(20px,30px)": true,
		"frame=transform:scale(2);transform-origin:0+0": false, "frame=transform:scale(.5)": false, "frame=transform:rotate(90deg)": false,
		"frame=transform:rotate(180deg)": false, "frame=transform:scaleX(-1)": false, "frame=transform:perspective(300px)+rotateX(40deg)": false,
		"div=transform:scale(2);transform-origin:0+0": false, "frame=zoom:.5": false, "body=zoom:1.5": false,
	} {
		for _, process := range []string{"", "&other=1"} {
			navigate(t, b, site.URL+"/?"+style+process)
			ref := awaitRef(t, b, "button", "Button 2")
			title := "none"
			done, err := b.Click(t.Context(), browser.Click{Element: el(ref), Timeout: 500})
			for n := 1; err == nil && title == "none"; n++ {
				if _, err := b.Wait(t.Context(), browser.Wait{Text: "clicked", Timeout: 10_000}); err == nil {
					title = "Button 2"
					break
				}
				t.Logf("%s%s: no button was clicked, %+v", style, process, done) // on a busy machine a new page may lose a click
				if n == 3 {
					t.Errorf("%s%s: no button was clicked", style, process)
					break
				}
				done, err = b.Click(t.Context(), browser.Click{Element: el(ref), Timeout: 500})
			}
			if clicked && err != nil && strings.Contains(err.Error(), "got no click") { // as above
				done, err = b.Click(t.Context(), browser.Click{Element: el(ref), Timeout: 500})
				title = "Button 2"
				_, _ = b.Wait(t.Context(), browser.Wait{Text: "clicked", Timeout: 10_000})
			}
			if got := evaluate[string](t, b, "document.title"); got != title || clicked && err != nil {
				t.Errorf("%s%s: %s was clicked, %v", style, process, got, err)
			}
		}
	}
}

// TestPressNeedsFocus: keys for a page come to the page, also if another window has the focus.
func TestPressNeedsFocus(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	navigate(t, b, "data:text/html,<title>Keys</title><body><form name=hasFocus></form><script>var n=0;onkeydown=(e)=>{if(e.key==='z')document.body.append(`n${++n} `)}</script>")
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := d.FocusWindow(t.Context(), app.Window); err != nil {
			t.Fatal(err)
		}
		if err := b.Press(t.Context(), browser.Press{Keys: "z"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Wait(t.Context(), browser.Wait{Text: "n10", Timeout: 10_000}); err != nil {
		t.Errorf("the page got %d keys of 10: %v", evaluate[int](t, b, "n"), err)
	}
}
