package browser_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop/browser"
)

// TestLargeLogs: a page cannot make its console and its requests too large for an agent, for which an
// answer has at most 1 MiB. It gets the newest ones.
func TestLargeLogs(t *testing.T) {
	t.Parallel()
	site := serve(t)
	b := start(t, browser.Config{Headless: true})
	navigate(t, b, site.URL)
	logged := func(text string) (browser.ConsoleLog, int) {
		t.Helper()
		evaluate[bool](t, b, `for (let i = 0; i < 250; i++) console.log(i + "`+text+`".repeat(2000)), true`)
		evaluate[bool](t, b, `console.log("last"), true`)
		var log browser.ConsoleLog
		return log, do(t, b, "console", &log)
	}
	// Escaped for HTML, the character < has six bytes.
	if log, size := logged("<"); size > 1<<20 || len(log.Messages) != 200 || log.Messages[199].Text != "last" {
		t.Errorf("%d messages with %d bytes", len(log.Messages), size)
	}
	log, size := logged(`\x01`)
	if n := len(log.Messages); size > 1<<20 || size < 1000<<10 || n < 150 || n > 199 || log.Dropped != uint64(502-n) || log.Messages[n-1].Text != "last" {
		t.Errorf("%d messages with %d bytes, and %d were dropped", n, size, log.Dropped)
	}
	evaluate[bool](t, b, `(async () => {
		for (let i = 0; i < 220; i++) await fetch("/second", {method: "&".repeat(2000)}).catch(() => 0);
		await fetch("/second?last");
		return true;
	})()`)
	var network browser.NetworkLog
	size = do(t, b, "network", &network)
	if n := len(network.Requests); size > 1<<20 || n < 200 || !strings.HasSuffix(network.Requests[n-1].URL, "?last") {
		t.Errorf("%d requests with %d bytes", n, size)
	}
}

// do calls a command, decodes its result, and returns the size of that.
func do(t *testing.T, b *browser.Browser, name string, result any) (size int) {
	t.Helper()
	text, err := b.Do(t.Context(), name, nil)
	if err == nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}
