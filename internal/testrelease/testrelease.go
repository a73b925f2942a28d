// Package testrelease makes and serves releases of deskhand for tests.
package testrelease

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Program returns a shell script that prints a version of deskhand.
func Program(version string) string { return "#!/bin/sh\necho deskhand " + version + "\n" }

// Archive returns a release's archive of one folder, with a script as the program.
func Archive(tb testing.TB, folder, script string) string {
	tb.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	for name, text := range map[string]string{
		"deskhand": script, "deskhand.1": "manual", "LICENSE": "licence", "THIRD_PARTY_NOTICES": "licences",
		"completions/deskhand.bash": "bash", "completions/_deskhand": "zsh", "completions/deskhand.fish": "fish",
	} {
		err := files.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg})
		if _, failed := files.Write([]byte(text)); err != nil || failed != nil {
			tb.Fatal(err, failed)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// Serve serves files by their paths until the test ends, and returns the URL. The
// download of a file that begins with CUT breaks.
func Serve(tb testing.TB, files map[string]string) string {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		text, cut := strings.CutPrefix(text, "CUT")
		if cut {
			w.Header().Set("Content-Length", fmt.Sprint(2*len(text)))
		}
		_, _ = w.Write([]byte(text))
		if cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	tb.Cleanup(s.Close)
	return s.URL
}
