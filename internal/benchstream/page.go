package main

import (
	"embed"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
)

//go:embed page/index.html page/viewer.js
var pageFiles embed.FS

// page serves the viewer's page, and takes the pictures that it sends.
type page struct {
	*httptest.Server
	pictures chan received
}

// received is the luma of a picture that the browser has decoded.
type received struct {
	number uint16 // of its marker
	luma   []byte
}

// pictureMost is the size of the largest picture.
const pictureMost = screenWidth * screenHeight

func servePage() (*page, error) {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		return nil, err
	}
	p := &page{pictures: make(chan received)}
	mux := http.NewServeMux()
	static := http.FileServerFS(files)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		// These headers isolate the page, which gives it a clock of 5 instead of
		// 100 µs (High Resolution Time, section 7.1).
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		w.Header().Set("Cache-Control", "no-store")
		static.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /picture", p.receive)
	p.Server = httptest.NewServer(mux)
	return p, nil
}

func (p *page) receive(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.ParseUint(r.URL.Query().Get("number"), 10, 16)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	luma, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pictureMost))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.pictures <- received{uint16(number), luma}:
	case <-r.Context().Done():
	}
}
