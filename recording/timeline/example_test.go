package timeline_test

import (
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/deskhand/deskhand/recording/timeline"
)

// A program marks a video that has ended and prints its chapters.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "timeline.jsonl")
	began, length := time.Now().Add(-time.Hour), 10*time.Second
	for title, at := range map[string]timeline.Milliseconds{"Sign in": 0, "Check out": 6500} {
		if _, err := timeline.AddMarker(file, timeline.Marker{Title: title, At: &at}, began, length); err != nil {
			log.Fatal(err)
		}
	}
	err = timeline.WriteWebVTT(os.Stdout, timeline.VTTChapters, timeline.Read(file, 0), length, timeline.Span{})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// WEBVTT
	//
	// 1
	// 00:00:00.000 --> 00:00:06.500
	// Sign in
	//
	// 2
	// 00:00:06.500 --> 00:00:10.000
	// Check out
}
