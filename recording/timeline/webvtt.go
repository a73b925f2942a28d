package timeline

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// VTTKind is the kind of a WebVTT file, as in the kind attribute of HTML's track element.
type VTTKind string

// The kinds of WebVTT files.
const (
	VTTCaptions VTTKind = "captions" // each action in words
	VTTChapters VTTKind = "chapters" // see Chapters
)

// cue is one cue of a WebVTT file.
type cue struct {
	from, to Milliseconds
	lines    []string // not empty, without line breaks
}

// WriteWebVTT writes the captions or chapters of a video. length is the length of the video,
// or zero while the video is being made. If span is not zero, WriteWebVTT writes only that
// part, with times from the beginning of the span, as in a clip. The error is an
// *InvalidError for span or kind, the error of entries, or the error of w. It reads all
// entries before it writes.
func WriteWebVTT(w io.Writer, kind VTTKind, entries iter.Seq2[Entry, error], length time.Duration, span Span) error {
	if err := span.Check(); err != nil {
		return err
	}
	var cues []cue
	var err error
	switch kind {
	case VTTCaptions:
		cues, err = captions(entries, endOf(length))
	case VTTChapters:
		cues, err = chapterCues(entries, endOf(length))
	default:
		err = invalid("kind", "must be captions or chapters")
	}
	if err != nil {
		return err
	}
	return writeWebVTT(w, cut(cues, span))
}

func chapterCues(entries iter.Seq2[Entry, error], end Milliseconds) ([]cue, error) {
	list, err := chapters(entries, end)
	cues := make([]cue, len(list))
	for i, c := range list {
		cues[i] = cue{c.From, c.To, []string{c.Title}}
	}
	return cues, err
}

// cut returns the part of the cues that is within a span.
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

// writeWebVTT writes cues (https://www.w3.org/TR/webvtt1/#syntax), with numbers as ids.
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

// vttTime formats a WebVTT timestamp, always with hours.
func vttTime(m Milliseconds) string {
	d := m.Duration()
	return fmt.Sprintf("%02d:%02d:%02d.%03d", d/time.Hour, d/time.Minute%60, d/time.Second%60, d/time.Millisecond%1000)
}

// vttEscapes escape the characters that have a meaning in a cue, and line breaks. Without
// ">" there is no "-->", which would end the cue.
var vttEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", " ", "\r", " ", "\x00", " ")

// vttText escapes one line. An empty line would end the cue, so it becomes a no-break space.
func vttText(line string) string {
	line = vttEscapes.Replace(strings.ToValidUTF8(line, "\uFFFD"))
	if strings.TrimSpace(line) == "" {
		return "&nbsp;"
	}
	return line
}
