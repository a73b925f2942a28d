package timeline

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// A window makes a chapter if it keeps the focus for minChapter and for a part of
	// 1/maxVisits of the recording.
	minChapter Milliseconds = 5000
	maxVisits  Milliseconds = 20

	// glimpse is the length below which a visit does not interrupt the one before.
	glimpse Milliseconds = 1000

	// maxJoined is the size of a title to which no further title of the same moment is joined, in bytes.
	maxJoined = 1000
)

// Chapter is a part of a video with a title.
type Chapter struct {
	From, To Milliseconds
	Title    string
}

// Chapters divides a video at every marker and at each window that kept the focus for at
// least five seconds and at least a twentieth of the video. length is the length of the
// video, or zero while the video is being made. The chapters follow each other without a gap
// from the beginning to the end. There are no chapters if the only one would be a window's. The
// titles of one moment are joined, up to about 1000 bytes. The error is the error of entries.
func Chapters(entries iter.Seq2[Entry, error], length time.Duration) ([]Chapter, error) {
	return chapters(entries, endOf(length))
}

// endOf returns the end of a video of a length, or zero if it is not known.
func endOf(length time.Duration) Milliseconds {
	if length == 0 {
		return 0
	}
	return max(1, millis(length))
}

// chapter is a marker or the visit of a window.
type chapter struct {
	Chapter
	marker bool
	window desktop.WindowID
}

func chapters(entries iter.Seq2[Entry, error], end Milliseconds) ([]Chapter, error) {
	var latest Milliseconds
	sorted, err := chronological(entries, end, func(e Entry) bool {
		latest = max(latest, e.At)
		switch e.Type {
		case TypeStarted, TypeMarker, desktop.EventWindowFocused, desktop.EventWindowRenamed:
			return true
		default:
			return false
		}
	})
	if err != nil {
		return nil, err
	}
	if end == 0 {
		end = latest + 1000
	}
	var markers []chapter
	for _, e := range sorted {
		if e.Type == TypeMarker && e.Marker != nil {
			markers = append(markers, chapter{Chapter: Chapter{From: e.At, Title: plain(e.Marker.Title)}, marker: true})
		}
	}
	least := max(minChapter, end/maxVisits)
	visits := joinShort(joinShort(visits(sorted, end), glimpse), least)
	return merge(markers, awayFrom(markers, visits, least), end), nil
}

// visits returns the times for which windows had the focus, with the title that the window
// had at their end. While no window has the focus, the visit before continues.
func visits(sorted []Entry, end Milliseconds) []chapter {
	var list []chapter
	visit := func(at Milliseconds, w desktop.Window) {
		n := len(list)
		if n > 0 && list[n-1].window == w.ID {
			return
		}
		if n > 0 {
			list[n-1].To = at
		}
		list = append(list, chapter{Chapter: Chapter{at, end, titleOf(w)}, window: w.ID})
	}
	for _, e := range sorted {
		switch {
		case e.Type == TypeStarted:
			for _, w := range e.Windows {
				if w.Active {
					visit(e.At, w)
				}
			}
		case e.Window == nil:
		case e.Type == desktop.EventWindowFocused:
			visit(e.At, *e.Window)
		case e.Type == desktop.EventWindowRenamed:
			if n := len(list); n > 0 && list[n-1].window == e.Window.ID {
				list[n-1].Title = titleOf(*e.Window)
			}
		}
	}
	return list
}

func titleOf(w desktop.Window) string {
	return cmp.Or(strings.TrimSpace(plain(w.Title)), windowName(&w))
}

// joinShort joins visits that are shorter than least with the visit before, and then
// neighbouring visits of one window.
func joinShort(list []chapter, least Milliseconds) []chapter {
	var left []chapter
	for _, c := range list {
		n := len(left)
		switch {
		case n > 0 && left[n-1].window == c.window:
			left[n-1].Title, left[n-1].To = c.Title, c.To
		case c.To-c.From >= least:
			left = append(left, c)
		case n > 0:
			left[n-1].To = c.To
		}
	}
	return left
}

// awayFrom removes the visits that begin close to a marker, because the marker is more specific.
func awayFrom(markers, list []chapter, least Milliseconds) []chapter {
	return slices.DeleteFunc(list, func(c chapter) bool {
		i, _ := slices.BinarySearchFunc(markers, c.From-least, func(m chapter, at Milliseconds) int { return cmp.Compare(m.From, at) })
		return i < len(markers) && markers[i].From <= c.From+least
	})
}

func merge(markers, visits []chapter, end Milliseconds) []Chapter {
	list := slices.Concat(markers, visits)
	slices.SortStableFunc(list, func(a, b chapter) int { return cmp.Compare(a.From, b.From) })
	var all []chapter
	for _, c := range list {
		if n := len(all); n > 0 && all[n-1].From == c.From {
			switch title := &all[n-1].Title; {
			case len(*title) < maxJoined:
				*title += " / " + c.Title
			case !strings.HasSuffix(*title, " / …"):
				*title += " / …"
			}
			all[n-1].marker = all[n-1].marker || c.marker
			continue
		}
		all = append(all, c)
	}
	if len(all) == 0 || len(all) == 1 && !all[0].marker {
		return nil
	}
	switch first := &all[0]; {
	case !first.marker && first.From < minChapter:
		first.From = 0
	case first.From > 0:
		all = slices.Insert(all, 0, chapter{Chapter: Chapter{Title: "Start"}})
	}
	chapters := make([]Chapter, len(all))
	for i, c := range slices.Backward(all) {
		chapters[i] = Chapter{c.From, end, c.Title}
		end = c.From
	}
	return chapters
}
