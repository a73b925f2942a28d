package browser_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestPasswordsInEvents checks that no event has the password of a URL, or the query of a page.
func TestPasswordsInEvents(t *testing.T) {
	t.Parallel()
	site := serve(t)
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d, Headless: true})
	events := d.Subscribe(0)
	defer events.Close()
	ctx := t.Context()
	with := func(user string) string { return strings.Replace(site.URL, "://", "://"+user+"@", 1) + "/second" }
	long := "ann:" + strings.Repeat("hunter2", 200)
	urls := []string{"view-source:" + with("ann:hunter2"), with("ann:hunter2"), with(long)}
	for _, url := range urls {
		navigate(t, b, url)
	}
	navigate(t, b, site.URL+"/second?password=hunter2#hunter2") // as a form is sent
	evaluate[bool](t, b, "history.pushState(0, '', '?password=hunter2'), setTimeout(() => alert('done')), true")
	for _, url := range urls {
		if _, err := b.NewTab(ctx, url); err != nil {
			t.Fatal(err)
		}
	}
	defer time.AfterFunc(time.Minute, events.Close).Stop()
	seen := map[string]int{}
	for e := range events.Events() {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "hunter2") {
			t.Errorf("an event has the password: %.300s", text)
		}
		switch {
		case e.Action != nil:
			seen[e.Action.Command]++
		case e.Browser != nil:
			seen[string(e.Browser.Kind)]++
		}
		if seen["open tab"] == len(urls) && seen["navigated"] > len(urls) && seen["dialog"] > 0 {
			return
		}
	}
	t.Errorf("not all events came: %v", seen)
}
