package x11_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/x11"
)

func BenchmarkInput(b *testing.B) {
	d := newDesk(b)
	received := d.xterm(b)
	typed := func(text string) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			before, n := len(received()), 0
			for b.Loop() {
				if _, err := d.in.Keyboard.Type(b.Context(), textOf(text), 0); err != nil {
					b.Fatal(err)
				}
				n++
			}
			poll(b, "text", func() bool { return len(received())-before >= n*len(text) })
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/float64(utf8.RuneCountInString(text)), "ns/char")
		}
	}
	b.Run("type/ascii-100", typed(strings.Repeat("Hello, 12\n", 10)))
	b.Run("type/mixed-100", typed(mixedText(1, 100)))
	b.Run("type/one", typed("a"))
	ch, err := x11.ParseChord("a")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("press", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := d.in.Keyboard.Press(b.Context(), ch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("move", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if err := d.in.Pointer.Move(i%500, 300); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("pointer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, _, err := d.in.Pointer.Position(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("click", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := d.in.Pointer.Click(1, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := x11.ParseChord("ctrl+shift+Page_Down"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
