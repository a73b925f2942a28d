package webrtc

import (
	"embed"
	"net/http"
	"strings"
)

//go:embed viewer
var viewerFiles embed.FS

// Handler returns a handler of a page that shows the desktop, the page's files viewer.js and
// viewer.css and, at whep, [Streamer.ServeWHEP]. It can be mounted with http.StripPrefix
// below a path that ends in a slash.
//
// Viewers of the page can only watch. Input needs [Streamer.ServeSignaling] on a WebSocket.
// The program decides who may see the page.
func (s *Streamer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/whep", s.ServeWHEP)
	mux.HandleFunc("/whep/", s.ServeWHEP)
	mux.HandleFunc("/", servePage)
	return mux
}

// pageTypes are the files of the page. A container may have no list of MIME types.
var pageTypes = map[string]string{
	"index.html": "text/html; charset=utf-8",
	"viewer.js":  "text/javascript; charset=utf-8",
	"viewer.css": "text/css; charset=utf-8",
}

const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'"

func servePage(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	kind, ok := pageTypes[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	data, _ := viewerFiles.ReadFile("viewer/" + name)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(data)
}
