package recording

import (
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// leastShown is for how long a caption stays even when others follow.
	leastShown Milliseconds = 1500

	// perCharacter is added for reading, up to mostShown in all.
	perCharacter Milliseconds = 60
	mostShown    Milliseconds = 6000

	// goesOn is how soon the same must happen again, or another key be pressed,
	// to change the caption that is there instead of adding one.
	goesOn Milliseconds = 1000
)

// captionLines is how many captions stand below each other at most. When more
// follow so quickly, the oldest gives way.
const captionLines = 3

// caption is a line of text, from the moment on at which what it tells is seen.
type caption struct {
	at    Milliseconds
	leave Milliseconds
	text  string

	count    int    // how often it happened; more than one is told
	typed    string // "Type: ", with who does and where, before what is typed key by key
	replaces bool   // the caption before goes when this one comes
}

// captions tells what happened in words. Each line appears at its moment and
// stays long enough to be read; lines that follow quickly stand below it. At no
// time are there two cues, which players would lay out in one way or another.
// Nothing is after end, unless that is zero.
func captions(entries iter.Seq2[Entry, error], end Milliseconds) ([]cue, error) {
	sorted, err := chronological(entries, end, func(Entry) bool { return true })
	if err != nil {
		return nil, err
	}
	var now scene
	var list []caption
	for _, e := range gestures(sorted) {
		if c, ok := now.caption(e); ok {
			list = append(list, c.after(list))
		}
		now.follow(e)
	}
	timeCaptions(list)
	return layOut(list, end), nil
}

// caption is an entry's caption, if it has one.
func (s *scene) caption(e Entry) (caption, bool) {
	c := caption{at: e.At, text: s.words(e), count: 1}
	if a := e.Action; a != nil && a.Name == desktop.ActionKeyDown && a.Error == "" && utf8.RuneCountInString(a.Keys) == 1 {
		c.text, c.typed = plain(a.Keys), s.by(a.Actor, "Type"+in(s.find(s.focus))+": ")
	}
	return c, c.text != ""
}

// after makes a caption go on with the one before, when it should.
func (c caption) after(list []caption) caption {
	if len(list) == 0 || c.at-list[len(list)-1].at > goesOn {
		return c
	}
	last := list[len(list)-1]
	switch {
	case c.typed != last.typed:
	case c.typed != "":
		c.text, c.replaces = keepEnd(last.text+c.text), true
	case c.text == last.text:
		c.count, c.replaces = last.count+1, true
	}
	return c
}

// keepEnd is the end of a text that became too long to be shown.
func keepEnd(text string) string {
	if utf8.RuneCountInString(text) <= mostWords {
		return text
	}
	r := []rune(text)
	return "…" + string(r[len(r)-mostWords+1:])
}

func (c caption) line() string {
	if c.count > 1 {
		return fmt.Sprintf("%s (×%d)", c.text, c.count)
	}
	return c.typed + c.text
}

// timeCaptions sets when each caption goes: when it has been read, or, if others
// follow, somewhat sooner.
func timeCaptions(list []caption) {
	for i := range list {
		c := &list[i]
		c.leave = c.at + min(mostShown, leastShown+perCharacter*Milliseconds(utf8.RuneCountInString(c.line())))
		if i+1 == len(list) {
			return
		}
		if next := list[i+1]; next.replaces {
			c.leave = min(c.leave, next.at)
		} else {
			c.leave = min(c.leave, max(next.at, c.at+leastShown))
		}
	}
}

// layOut makes cues of captions: one for each time between two changes.
func layOut(list []caption, end Milliseconds) []cue {
	moments := make([]Milliseconds, 0, 2*len(list))
	for _, c := range list {
		moments = append(moments, c.at, c.leave)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	var cues []cue
	begun := 0 // how many captions have begun
	for i := range max(0, len(moments)-1) {
		from, to := moments[i], moments[i+1]
		if end > 0 {
			if from >= end {
				break
			}
			to = min(to, end)
		}
		for begun < len(list) && list[begun].at <= from {
			begun++
		}
		lines := shown(list[:begun], from)
		if len(lines) == 0 {
			continue
		}
		if n := len(cues); n > 0 && cues[n-1].to == from && slices.Equal(cues[n-1].lines, lines) {
			cues[n-1].to = to
			continue
		}
		cues = append(cues, cue{from, to, lines})
	}
	return cues
}

// shown are the lines that stand at a moment, the latest last.
func shown(begun []caption, at Milliseconds) []string {
	var lines []string
	for i := len(begun) - 1; i >= 0 && len(lines) < captionLines && at-begun[i].at <= mostShown; i-- {
		if c := begun[i]; c.leave > at {
			lines = append(lines, c.line())
		}
	}
	slices.Reverse(lines)
	return lines
}

// untilEnd is where a recording's captions and chapters end, or zero for one that
// runs, or of which it is not known.
func untilEnd(info Info, running bool) Milliseconds {
	if running || info.Duration == 0 {
		return 0
	}
	return max(1, millis(info.Duration))
}
