package vp8screen

import (
	"bytes"
	"testing"
)

// count returns how many macroblocks are marked.
func (d *Dirty) count() int { return len(d.Blocks) - bytes.Count(d.Blocks, []byte{0}) }

// all marks every macroblock.
func (d *Dirty) all() *Dirty {
	for i := range d.Blocks {
		d.Blocks[i] = 1
	}
	return d
}

func TestDirty(t *testing.T) {
	t.Parallel()
	d := NewDirty(100, 50)
	if d.Cols != 7 || d.Rows != 4 || len(d.Blocks) != 28 || d.Any() {
		t.Fatalf("NewDirty(100, 50) = %+v, want 7 by 4 macroblocks without marks", d)
	}
	d.Set(6, 3)
	if !d.Get(6, 3) || d.Get(3, 3) || !d.Any() || d.count() != 1 {
		t.Errorf("after Set(6, 3): %v", d.Blocks)
	}
	d.Clear()
	if d.Any() || d.Get(6, 3) {
		t.Errorf("after Clear: %v", d.Blocks)
	}
}
