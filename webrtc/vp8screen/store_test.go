//go:build !race

package vp8screen

import (
	"image"
	"testing"
	"time"
)

// TestComesBack switches between windows and opens a menu. A picture that was shown before takes
// few bytes to show again.
func TestComesBack(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	const width, height = 800, 600
	s := newSession(t, Config{Width: width, Height: height})
	r := recording{file: newIVF(width, height)}
	var windows [3]*canvas
	for i := range windows {
		windows[i] = newCanvas(width, height)
		for c := range corpus[i].play(t, width, height, 1) {
			windows[i].blit(c.bounds(), c, image.Point{})
		}
	}
	menu := windows[2]
	show := func(area image.Rectangle, from *canvas, what string) int {
		t.Helper()
		c := newCanvas(width, height)
		c.blit(c.bounds(), windows[0], image.Point{})
		c.blit(area, from, area.Min)
		s.now = s.now.Add(500 * time.Millisecond)
		s.convert(c, []image.Rectangle{c.bounds()})
		out := s.encodeAs(t, EncodeOptions{Dirty: s.dirty, Now: s.now})
		r.add(s, out, what)
		refineAll(t, s, &r)
		s.dirty.Clear()
		return len(out.Data)
	}
	all, part := image.Rect(0, 0, width, height), image.Rect(100, 50, 350, 450)
	show(all, windows[0], "first window")
	there := show(all, windows[1], "second window")
	back := show(all, windows[0], "first window again")
	again := show(all, windows[1], "second window again")
	show(all, windows[0], "first window at last")
	opened := show(part, menu, "menu")
	closed := show(part, windows[0], "menu closed")
	reopened := show(part, menu, "menu again")
	t.Logf("windows: %d, back %d, again %d bytes; menu: %d, closed %d, again %d", there, back, again, opened, closed, reopened)
	if back > there/10 || again > there/10 {
		t.Errorf("a window that comes back takes %d and %d bytes, %d when it was new", back, again, there)
	}
	if closed > opened/5 || reopened > opened/5 {
		t.Errorf("a menu takes %d bytes, %d to close, %d to open again", opened, closed, reopened)
	}
	r.wantDecoded(t)
}
