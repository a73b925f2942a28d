package recording

import (
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// leastChapter is how long somebody must stay in a window to make it a
	// chapter: that, or the mostVisits-th part of a long recording.
	leastChapter Milliseconds = 5000
	mostVisits   Milliseconds = 20

	// glimpse is how short a visit is that does not interrupt the one before.
	glimpse Milliseconds = 1000
)

// mostChapters are written into an MP4 file, whose list counts them in a byte.
const mostChapters = 255

// chapter is a part of a recording under a name.
type chapter struct {
	from, to Milliseconds
	title    string
	marker   bool
	window   desktop.WindowID // of a visit
}

// chapters divides a recording: at every marker, and where somebody began to
// work in another window and stayed for a while. They follow each other without
// a hole from the beginning on. None is better than one that says nothing. end
// zero stands for a recording that runs.
func chapters(entries iter.Seq2[Entry, error], end Milliseconds) ([]chapter, error) {
	var latest Milliseconds
	sorted, err := chronological(entries, end, func(e Entry) bool {
		latest = max(latest, e.At)
		switch e.Type {
		case EntryStarted, EntryMarker, EntryType(desktop.EventWindowFocused), EntryType(desktop.EventWindowRenamed):
			return true
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	if end == 0 {
		end = latest + 1000
	}
	var markers []chapter
	for _, e := range sorted {
		if e.Type == EntryMarker && e.Marker != nil {
			markers = append(markers, chapter{from: e.At, title: plain(e.Marker.Title), marker: true})
		}
	}
	least := max(leastChapter, end/mostVisits)
	visits := stays(stays(visits(sorted, end), glimpse), least)
	return join(markers, awayFrom(markers, visits, least), end), nil
}

// visits tells when which window had the focus, under the title that it had at
// the end. While none has it, the one before counts.
func visits(sorted []Entry, end Milliseconds) []chapter {
	var list []chapter
	visit := func(at Milliseconds, w desktop.Window) {
		n := len(list)
		if n > 0 && list[n-1].window == w.ID {
			return
		}
		if n > 0 {
			list[n-1].to = at
		}
		list = append(list, chapter{from: at, to: end, title: titleOf(w), window: w.ID})
	}
	for _, e := range sorted {
		switch {
		case e.Type == EntryStarted:
			for _, w := range e.Windows {
				if w.Active {
					visit(e.At, w)
				}
			}
		case e.Window == nil:
		case e.Type == EntryType(desktop.EventWindowFocused):
			visit(e.At, *e.Window)
		case e.Type == EntryType(desktop.EventWindowRenamed):
			if n := len(list); n > 0 && list[n-1].window == e.Window.ID {
				list[n-1].title = titleOf(*e.Window)
			}
		}
	}
	return list
}

func titleOf(w desktop.Window) string {
	if title := strings.TrimSpace(plain(w.Title)); title != "" {
		return title
	}
	return windowName(&w)
}

// stays leaves the visits that were long enough. The others count as part of the
// one before, and those before and after may be one then.
func stays(list []chapter, least Milliseconds) []chapter {
	var left []chapter
	for _, c := range list {
		n := len(left)
		switch {
		case n > 0 && left[n-1].window == c.window:
			left[n-1].title, left[n-1].to = c.title, c.to
		case c.to-c.from >= least:
			left = append(left, c)
		case n > 0:
			left[n-1].to = c.to
		}
	}
	return left
}

// awayFrom leaves the visits that do not begin close to a marker, which tells
// more.
func awayFrom(markers, list []chapter, least Milliseconds) []chapter {
	var left []chapter
	i := 0
	for _, c := range list {
		for i < len(markers) && markers[i].from < c.from-least {
			i++
		}
		if i == len(markers) || markers[i].from > c.from+least {
			left = append(left, c)
		}
	}
	return left
}

// join puts markers and visits into one list.
func join(markers, list []chapter, end Milliseconds) []chapter {
	var all []chapter
	for len(markers) > 0 || len(list) > 0 {
		var c chapter
		if len(list) == 0 || len(markers) > 0 && markers[0].from <= list[0].from {
			c, markers = markers[0], markers[1:]
		} else {
			c, list = list[0], list[1:]
		}
		switch n := len(all); {
		case n > 0 && all[n-1].from == c.from:
			all[n-1].title += " / " + c.title
			all[n-1].marker = all[n-1].marker || c.marker
		default:
			all = append(all, c)
		}
	}
	if len(all) == 0 || len(all) == 1 && !all[0].marker {
		return nil
	}
	switch first := &all[0]; {
	case !first.marker && first.from < leastChapter:
		first.from = 0
	case first.from > 0:
		all = append([]chapter{{title: "Start"}}, all...)
	}
	for i := range all {
		all[i].to = end
		if i+1 < len(all) {
			all[i].to = all[i+1].from
		}
	}
	return all
}

// chapterCues is the chapters as WebVTT has them.
func chapterCues(entries iter.Seq2[Entry, error], end Milliseconds) ([]cue, error) {
	list, err := chapters(entries, end)
	cues := make([]cue, len(list))
	for i, c := range list {
		cues[i] = cue{c.from, c.to, []string{c.title}}
	}
	return cues, err
}

// ffmetadata is the chapters of a recording that has ended as ffmpeg reads them
// (https://ffmpeg.org/ffmpeg-formats.html#Metadata-1). It is nil when there are
// none.
func ffmetadata(dir string, info Info) ([]byte, error) {
	list, err := chapters(fileEntries(filepath.Join(dir, timelineFile), 0), untilEnd(info, false))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(";FFMETADATA1\n")
	for _, c := range list[:min(len(list), mostChapters)] {
		fmt.Fprintf(&b, "[CHAPTER]\nTIMEBASE=1/1000\nSTART=%d\nEND=%d\ntitle=%s\n", c.from, c.to, metaEscapes.Replace(c.title))
	}
	return []byte(b.String()), nil
}

var metaEscapes = strings.NewReplacer(`\`, `\\`, "=", `\=`, ";", `\;`, "#", `\#`, "\n", "\\\n")
