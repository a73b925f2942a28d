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
