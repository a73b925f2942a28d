package timeline

import (
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
)

const (
	// minShown is how long a caption stays when others follow.
	minShown Milliseconds = 1500

	// perCharacter is added for reading, up to maxShown.
	perCharacter Milliseconds = 60
	maxShown     Milliseconds = 6000

	// repeatPause is the longest pause after which a repetition, or another key, changes
	// the caption instead of adding one.
	repeatPause Milliseconds = 1000

	// maxLines bounds the captions that are visible together. The oldest ones end earlier.
	maxLines = 3
)

// caption is a line of text.
type caption struct {
	from, to Milliseconds
	text     string

	count    int    // of repetitions, if more than 1
	typed    string // for keys typed one by one: actor and window, in front of the keys
	replaces bool   // ends the caption before
}

// captions puts entries into words. Each line appears at its position and stays long enough
// to be read; lines that follow closely stand below it. No two cues overlap, because players
// lay those out differently. No cue is after end, unless end is zero.
func captions(entries iter.Seq2[Entry, error], end Milliseconds) ([]cue, error) {
	sorted, err := chronological(entries, end, func(Entry) bool { return true })
	if err != nil {
		return nil, err
	}
	var now scene
	var list []caption
	for _, e := range joinGestures(sorted) {
		if c, ok := now.caption(e); ok {
			list = append(list, c.after(list))
		}
		now.apply(e)
	}
	setEnds(list)
	return layOut(list, end), nil
}

// joinGestures joins the actions of sorted entries. An entry whose action became part of
// another one has no action afterwards.
func joinGestures(sorted []Entry) []Entry {
	list := make([]activity.Event, len(sorted))
	for i, e := range sorted {
		list[i] = activity.Event{At: e.At.Duration(), Action: e.Action}
	}
	activity.Join(list)
	for i := range sorted {
		sorted[i].Action = list[i].Action
	}
	return sorted
}

// caption returns the caption of an entry, if it has one.
func (s *scene) caption(e Entry) (caption, bool) {
	c := caption{from: e.At, text: s.describe(e), count: 1}
	if a := e.Action; a != nil && a.Name == desktop.ActionKeyDown && a.Error == "" && utf8.RuneCountInString(a.Keys) == 1 {
		c.text, c.typed = plain(a.Keys), s.by(a.Actor, "Type"+s.inFocus()+": ")
	}
	return c, c.text != ""
}

// after joins a caption with the last one of a list if it continues that caption.
func (c caption) after(list []caption) caption {
	if len(list) == 0 || c.from-list[len(list)-1].from > repeatPause {
		return c
	}
	last := list[len(list)-1]
	switch {
	case c.typed != last.typed:
	case c.typed != "":
		c.text, c.replaces = last.text+c.text, true
		if r := []rune(c.text); len(r) > maxQuote {
			c.text = "…" + string(r[len(r)-maxQuote+1:])
		}
	case c.text == last.text:
		c.count, c.replaces = last.count+1, true
	}
	return c
}

func (c caption) line() string {
	if c.count > 1 {
		return fmt.Sprintf("%s (×%d)", c.text, c.count)
	}
	return c.typed + c.text
}

// setEnds ends each caption when it has been read, or sooner if others follow.
func setEnds(list []caption) {
	for i := range list {
		c := &list[i]
		c.to = c.from + min(maxShown, minShown+perCharacter*Milliseconds(utf8.RuneCountInString(c.line())))
		if i+1 == len(list) {
			return
		}
		if next := list[i+1]; next.replaces {
			c.to = min(c.to, next.from)
		} else {
			c.to = min(c.to, max(next.from, c.from+minShown))
		}
	}
}

// layOut makes a cue for each interval between two changes of the visible captions.
func layOut(list []caption, end Milliseconds) []cue {
	moments := make([]Milliseconds, 0, 2*len(list))
	for _, c := range list {
		moments = append(moments, c.from, c.to)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	var cues []cue
	begun := 0 // captions that begin no later than the cue
	for i := range max(0, len(moments)-1) {
		from, to := moments[i], moments[i+1]
		if end > 0 {
			if from >= end {
				break
			}
			to = min(to, end)
		}
		for begun < len(list) && list[begun].from <= from {
			begun++
		}
		lines := visible(list[:begun], from)
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

// visible returns the lines at a position, the latest last.
func visible(begun []caption, at Milliseconds) []string {
	var lines []string
	for i := len(begun) - 1; i >= 0 && len(lines) < maxLines && at-begun[i].from <= maxShown; i-- {
		if c := begun[i]; c.to > at {
			lines = append(lines, c.line())
		}
	}
	slices.Reverse(lines)
	return lines
}
