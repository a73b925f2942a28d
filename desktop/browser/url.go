package browser

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	// outerSchemes matches the schemes before a URL in a URL.
	outerSchemes = regexp.MustCompile(`^(?i:view-source:|blob:|filesystem:)*`)
	scheme       = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
)

// withoutSecrets returns a URL without user name and password, which the browser's address bar does
// not show either, and without query and fragment, which often have a text that was typed, or a
// signature. It returns only the scheme of a URL in which it does not know where the password is.
// text must be whole: limit the result.
func withoutSecrets(text string) string {
	outer := outerSchemes.FindString(text)
	inner := text[len(outer):]
	u, err := url.Parse(inner)
	// The browser accepts http:user:password@host, with any number of slashes.
	unclear := err == nil && u.Host == "" && u.Scheme != "data" && u.Scheme != "file" && strings.Contains(inner, "@")
	if err != nil || unclear {
		return outer + scheme.FindString(inner) + "…"
	}
	if u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return text
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	return outer + u.String()
}

// limited returns a copy of at most maxText characters of a page's text. A part of a string would keep
// the whole string in memory.
func limited(s string) string {
	if len(s) <= maxText {
		return strings.Clone(strings.ToValidUTF8(s, "\uFFFD"))
	}
	s = strings.ToValidUTF8(s[:min(len(s), utf8.UTFMax*maxText)], "\uFFFD")
	n := 0
	for i := range s {
		if n++; n > maxText {
			return s[:i] + "…"
		}
	}
	return strings.Clone(s)
}
