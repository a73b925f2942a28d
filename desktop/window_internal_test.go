package desktop

import (
	"testing"

	"github.com/deskhand/deskhand/internal/x11"
)

// TestURLTitles: a title that is the URL of a page has neither query nor fragment.
func TestURLTitles(t *testing.T) {
	for title, want := range map[string]string{
		"127.0.0.1:40775/r2?q=secret - Chromium":          "127.0.0.1:40775/r2 - Chromium",
		"example.com/search?q=a#b - Google Chrome":        "example.com/search - Google Chrome",
		"https://example.com/?q=secret — Mozilla Firefox": "https://example.com/ — Mozilla Firefox",
		"localhost/#secret":                               "localhost/",
		"view-source:http://host:80/a?secret - Chromium":  "view-source:http://host:80/a - Chromium",
		"[::1]:8080/a?secret":                             "[::1]:8080/a",
		"пример.рф/поиск?secret - Chromium":               "пример.рф/поиск - Chromium",
		"example.com/s?q=my secret words - Chromium":      "example.com/s - Chromium",
		"example.com/s?q=my - secret - Google Chrome":     "example.com/s - Google Chrome",
		"example.com/s?q=my secret words":                 "example.com/s",
		"example.com/my file?q=secret - Chromium":         "example.com/my file - Chromium",
		"example.com/my file#secret words - Chromium":     "example.com/my file - Chromium",
		"example.com./s?q=my secret - Chromium":           "example.com./s - Chromium",
		"https://intranet/s?q=my secret — Firefox":        "https://intranet/s — Firefox",
		"https://intranet?secret":                         "https://intranet",
		"intranet/s?q=my secret - Chromium":               "intranet/s - Chromium",
		"intranet/?q=secret - Chromium":                   "intranet/ - Chromium",
		"intranet/my file?q=my secret - Chromium":         "intranet/my file - Chromium",
		"intranet/a#secret - Chromium":                    "intranet/a - Chromium",
		"my_host.corp/s?q=secret - Chromium":              "my_host.corp/s - Chromium",
		"my_host/s?q=secret - Chromium":                   "my_host/s - Chromium",
		"file:///home/u/my file.html?q=secret - Chromium": "file:///home/u/my file.html - Chromium",
		"example.com/?q=two\nlines - Chromium":            "example.com/ - Chromium",
		"view-source:intranet/s?q=my secret - Chromium":   "view-source:intranet/s - Chromium",
		"Why? - Forum - Chromium":                         "Why? - Forum - Chromium",
		"C# in depth - Chromium":                          "C# in depth - Chromium",
		"ASP.NET/C# in depth - Chromium":                  "ASP.NET/C# in depth - Chromium",
		"Node.js: why? - Chromium":                        "Node.js: why? - Chromium",
		"AC/DC's #1 hits - Chromium":                      "AC/DC's #1 hits - Chromium",
		"Yes/no?":                                         "Yes/no?",
		"What is this? - Chromium":                        "What is this? - Chromium",
		"Issue #12 - tracker":                             "Issue #12 - tracker",
		"notes.txt - Mousepad":                            "notes.txt - Mousepad",
		"C#":                                              "C#",
		"and/or? - Chromium":                              "and/or? - Chromium",
		"":                                                "",
	} {
		if got := windowOf(x11.WindowInfo{Title: title}).Title; got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}
