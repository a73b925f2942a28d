package vp8screen

import (
	"image"
	"testing"
)

func TestDirty(t *testing.T) {
	t.Parallel()
	d := NewDirty(100, 50)
	if d.Cols != 7 || d.Rows != 4 || d.Any() || d.Count() != 0 {
		t.Fatalf("a new map has %d columns, %d rows, %d set", d.Cols, d.Rows, d.Count())
	}
	tests := []struct {
		r    image.Rectangle
		want int
	}{
		{image.Rect(0, 0, 1, 1), 1},
		{image.Rect(15, 15, 17, 17), 4},
		{image.Rect(16, 16, 32, 32), 1},
		{image.Rect(-50, -50, 5, 500), 4},
		{image.Rect(96, 0, 5000, 1), 1},
		{image.Rect(0, 0, 100, 50), 28},
		{image.Rect(200, 0, 300, 50), 0},
		{image.Rect(5, 5, 5, 9), 0},
	}
	for _, tt := range tests {
		d.Clear()
		d.SetRect(tt.r)
		if d.Count() != tt.want || d.Any() != (tt.want > 0) {
			t.Errorf("SetRect(%v) set %d macroblocks, want %d", tt.r, d.Count(), tt.want)
		}
	}
	d.Clear()
	d.Set(6, 3)
	other := NewDirty(100, 50)
	other.Set(0, 0)
	d.Add(other)
	if !d.Get(6, 3) || !d.Get(0, 0) || d.Get(3, 3) || d.Count() != 2 {
		t.Errorf("after Add %d macroblocks are set", d.Count())
	}
	d.All()
	if d.Count() != 28 {
		t.Errorf("All set %d macroblocks", d.Count())
	}
}
