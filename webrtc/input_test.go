package webrtc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/desktop"
)

func TestParseInput(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   []byte
		want inputEvent
		err  error
	}{
		"move":           {[]byte{1, 0, 4, 1, 2, 3, 4}, inputEvent{kind: inputMove, at: &desktop.Point{X: 0x102, Y: 0x304}}, nil},
		"old scroll":     {[]byte{2, 0, 4, 0, 0, 0xff, 0x9c}, inputEvent{kind: inputScroll, dy: -100}, nil},
		"scroll":         {[]byte{2, 0, 5, 0x7f, 0xff, 0x80, 0, 0}, inputEvent{kind: inputScroll, dx: 32767, dy: -32768}, nil},
		"key":            {[]byte{3, 0, 4, 0, 0, 0xff, 0x0d}, inputEvent{kind: inputKeyDown, keysym: 0xff0d}, nil},
		"key up":         {[]byte{4, 0, 4, 1, 0, 0x6f, 0x22}, inputEvent{kind: inputKeyUp, keysym: 0x1006f22}, nil},
		"Latin-1":        {[]byte{3, 0, 4, 1, 0, 0, 0xe9}, inputEvent{kind: inputKeyDown, keysym: 0xe9}, nil},
		"button":         {[]byte{5, 0, 4, 0, 0, 0, 3}, inputEvent{kind: inputButtonDown, button: desktop.ButtonRight}, nil},
		"button up":      {[]byte{6, 0, 4, 0, 0, 0, 1}, inputEvent{kind: inputButtonUp, button: desktop.ButtonLeft}, nil},
		"wrong length":   {[]byte{1, 9, 9, 0, 1, 0, 2}, inputEvent{kind: inputMove, at: &desktop.Point{X: 1, Y: 2}}, nil},
		"a finger":       {[]byte{8, 0, 13, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 7, 255}, inputEvent{kind: inputButtonDown, at: &desktop.Point{X: 9, Y: 7}, button: desktop.ButtonLeft}, nil},
		"a finger moves": {[]byte{9, 0, 13, 0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 255}, inputEvent{kind: inputMove, at: &desktop.Point{X: 9, Y: -1}}, nil},
		"another finger": {[]byte{8, 0, 13, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 7, 255}, inputEvent{}, errFinger},
		"nothing":        {nil, inputEvent{}, errShort},
		"a header":       {[]byte{1, 0, 4}, inputEvent{}, errShort},
		"short":          {[]byte{1, 0, 4, 1, 2, 3}, inputEvent{}, errShort},
		"unknown":        {[]byte{0x99, 0, 4, 1, 2, 3, 4}, inputEvent{}, errOpcode},
		"no keysym":      {[]byte{3, 0, 4, 0, 0, 0, 0}, inputEvent{}, errKeysym},
		"no such keysym": {[]byte{3, 0, 4, 0xff, 0xff, 0xff, 0xff}, inputEvent{}, errKeysym},
		"a wheel button": {[]byte{5, 0, 4, 0, 0, 0, 4}, inputEvent{}, errButton},
	} {
		got, err := parseInput(tt.in)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(inputEvent{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzParseInput(f *testing.F) {
	f.Add([]byte{1, 0, 4, 1, 2, 3, 4})
	f.Add([]byte{2, 0, 5, 0x7f, 0xff, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseInput(b)
		if err == nil && e.kind == inputMove && e.at == nil {
			t.Errorf("%x = %+v", b, e)
		}
		var w wheel
		right, down := w.clicks(e.dx, e.dy)
		if max(right, -right, down, -down) > wheelMost {
			t.Errorf("%x scrolls by %d, %d", b, right, down)
		}
	})
}

func TestWheel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   []int // vertical
		want []int
	}{
		"notches of Chromium":   {[]int{120, 120, 120, -120}, []int{1, 1, 1, -1}},
		"notches of others":     {[]int{100, 100, -100}, []int{1, 1, -1}},
		"several together":      {[]int{240, -360}, []int{2, -3}},
		"a touchpad":            {[]int{40, 40, 40, 40, 40}, []int{0, 0, 1, 0, 1}},
		"a touchpad turns back": {[]int{40, 40, -40, -40, -40}, []int{0, 0, 0, 0, -1}},
		"units of neko":         {[]int{1, -1, 3}, []int{-1, 1, -3}},
		"absurd":                {[]int{32767, -32768}, []int{20, -20}},
	} {
		var w wheel
		var got []int
		for _, d := range tt.in {
			_, down := w.clicks(0, d)
			got = append(got, down)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInputQueue(t *testing.T) {
	t.Parallel()
	q := newInputQueue()
	at := func(x int) inputEvent { return inputEvent{kind: inputMove, at: &desktop.Point{X: x}} }
	for x := range 100 {
		q.put(at(x))
	}
	q.put(inputEvent{kind: inputButtonDown})
	q.put(at(7))
	got := q.take()
	if len(got) != 3 || got[0].at.X != 99 || got[1].kind != inputButtonDown || got[2].at.X != 7 {
		t.Errorf("queue = %+v", got)
	}
	for range 10 * inputMost {
		q.put(inputEvent{kind: inputKeyDown})
	}
	q.put(inputEvent{kind: inputKeyUp})
	if got = q.take(); len(got) != inputMost+1 || got[inputMost].kind != inputKeyUp {
		t.Errorf("a full queue has %d events", len(got))
	}
	text := strings.Repeat("a", textMost/2)
	for range 10 {
		q.put(inputEvent{kind: inputType, text: text})
	}
	if got = q.take(); len(got) != 2 {
		t.Errorf("a queue has %d texts of 512 KiB, want 2", len(got))
	}
	q.put(inputEvent{kind: inputType, text: text})
	if got = q.take(); len(got) != 1 {
		t.Error("a queue that was full accepts no text after it was emptied")
	}
}
