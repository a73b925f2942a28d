package webrtc

import (
	"embed"
	"net/http"
	"strings"
)

// viewerFiles is a page that plays the desktop.
//
//go:embed viewer
var viewerFiles embed.FS

// Handler serves a page that shows the desktop, and what the page needs: the
// files viewer.js and viewer.css and, at whep, [Streamer.ServeWHEP]. It may be
// mounted anywhere, with http.StripPrefix, below a path that ends in a slash.
//
// Who sees the page only watches. Input needs [Streamer.ServeSignaling] on a
// WebSocket of the program's own choice. Who may see it is the program's
// business, too.
func (s *Streamer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/whep", s.ServeWHEP)
	mux.HandleFunc("/whep/", s.ServeWHEP)
	mux.HandleFunc("/", servePage)
	return mux
}

// pageTypes are the files of the page. Their types are told here: a container
// may have no list of them.
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
	data, err := viewerFiles.ReadFile("viewer/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(data)
}
