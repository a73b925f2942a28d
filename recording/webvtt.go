package recording

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// VTTKind is what a WebVTT file is for.
type VTTKind string

// The kinds, as the kind attribute of HTML's track element names them.
const (
	Captions VTTKind = "captions" // each action in words, when it is seen
	Chapters VTTKind = "chapters" // markers, and where somebody worked in another window
)

// cue is a part of a WebVTT file.
type cue struct {
	from, to Milliseconds
	lines    []string // not empty, and each without a line end
}

// WriteWebVTT writes a recording's captions or chapters. Those of a span have
// times that are counted from its beginning, as they are in a clip.
func (s *Store) WriteWebVTT(w io.Writer, id string, kind VTTKind, span Span) error {
	if kind != Captions && kind != Chapters {
		return &InvalidError{"kind", "must be captions or chapters"}
	}
	if err := span.check(); err != nil {
		return err
	}
	dir, info, err := s.locate(id)
	if err != nil {
		return err
	}
	if err := s.flushTimeline(id); err != nil {
		return err
	}
	entries := fileEntries(filepath.Join(dir, timelineFile), 0)
	cuesOf := captions
	if kind == Chapters {
		cuesOf = chapterCues
	}
	s.cues.Lock()
	cues, err := cuesOf(entries, untilEnd(info, s.running(id) != nil))
	s.cues.Unlock()
	if err != nil {
		return err
	}
	return writeWebVTT(w, cut(cues, span))
}

// cut leaves what is within a span, counted from its beginning.
func cut(cues []cue, span Span) []cue {
	if span == (Span{}) {
		return cues
	}
	from, to := millis(span.From), millis(span.To)
	var left []cue
	for _, c := range cues {
		c.from = max(c.from, from) - from
		if span.To != 0 {
			c.to = min(c.to, to)
		}
		if c.to -= from; c.to > c.from {
			left = append(left, c)
		}
	}
	return left
}

// writeWebVTT writes cues (https://www.w3.org/TR/webvtt1/#syntax). Each has a
// number, by which errors and scripts can name it.
func writeWebVTT(w io.Writer, cues []cue) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "WEBVTT\n")
	for i, c := range cues {
		fmt.Fprintf(out, "\n%d\n%s --> %s\n", i+1, vttTime(c.from), vttTime(c.to))
		for _, line := range c.lines {
			fmt.Fprintln(out, vttText(line))
		}
	}
	return out.Flush()
}

// vttTime is a WebVTT timestamp, always with hours.
func vttTime(m Milliseconds) string {
	d := m.Duration()
	return fmt.Sprintf("%02d:%02d:%02d.%03d", d/time.Hour, d/time.Minute%60, d/time.Second%60, d/time.Millisecond%1000)
}

// vttEscapes are the characters that mean something in a cue's text. With ">"
// escaped there is no "-->", which would end the cue.
var vttEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// vttText escapes one line. A line that would be empty ends a cue, so that it
// becomes a no-break space.
func vttText(line string) string {
	line = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == 0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line, "\uFFFD"))
	if strings.TrimSpace(line) == "" {
		return "&nbsp;"
	}
	return vttEscapes.Replace(line)
}
