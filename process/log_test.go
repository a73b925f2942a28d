package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// written returns a log with the pieces, alternately of stdout and stderr.
func written(limit int, pieces ...string) *Log {
	l := newLog(limit)
	for i, text := range pieces {
		in := &intake{log: l, stream: uint8(i % 2)} // a new intake for each piece: no pieces are merged
		_, _ = in.Write([]byte(text))
	}
	return l
}

func sequences(entries []Entry) []uint64 {
	all := []uint64{}
	for _, e := range entries {
		all = append(all, e.Sequence)
	}
	return all
}

func TestEntries(t *testing.T) {
	t.Parallel()
	l := written(1000, "a", "b", "c", "d", "e")
	for _, tt := range []struct {
		q    Query
		want []uint64
	}{
		{Query{}, []uint64{1, 2, 3, 4, 5}},
		{Query{Stream: Stdout}, []uint64{1, 3, 5}},
		{Query{Stream: Stderr}, []uint64{2, 4}},
		{Query{Stream: Terminal}, []uint64{}},
		{Query{Since: 3}, []uint64{4, 5}},
		{Query{Since: 5}, []uint64{}},
		{Query{Since: 1 << 63}, []uint64{}},
		{Query{Since: ^uint64(0)}, []uint64{}},
		{Query{Tail: new(2)}, []uint64{4, 5}},
		{Query{Tail: new(0)}, []uint64{}},
		{Query{Tail: new(100)}, []uint64{1, 2, 3, 4, 5}},
		{Query{Stream: Stdout, Since: 1, Tail: new(1)}, []uint64{5}},
		{Query{Stream: Stdout, Since: 1, Tail: new(3)}, []uint64{3, 5}},
	} {
		if diff := cmp.Diff(tt.want, sequences(l.Entries(tt.q))); diff != "" {
			t.Errorf("%+v: %s", tt.q, diff)
		}
	}
}

// Small pieces of output are joined to one entry until a reader has seen it or mergeWindow has
// passed.
func TestMerge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog(1 << 20)
		out, errs := &intake{log: l, stream: stdout}, &intake{log: l, stream: stderr}
		write := func(in *intake, text string) { _, _ = in.Write([]byte(text)) }
		write(out, "a")
		write(out, "b")
		r := l.Follow(0)
		want := func(text ...string) {
			t.Helper()
			got := []string{}
			for _, e := range l.Entries(Query{}) {
				got = append(got, string(e.Data))
			}
			if diff := cmp.Diff(text, got); diff != "" {
				t.Error(diff)
			}
		}
		want("ab")
		write(out, "c") // the previous entry was seen
		write(out, "d")
		write(errs, "e")
		write(out, "f") // output of another stream came between
		<-time.After(mergeWindow)
		write(out, "g")
		want("ab", "cd", "e", "f", "g")
		if entries, gap, err := r.Next(t.Context()); err != nil || len(entries) != 5 || gap != (Gap{}) {
			t.Errorf("Next: %+v, %+v, %v", entries, gap, err)
		}
		write(out, "h")
		later := l.FollowBytes(0)
		write(out, "i") // for the later reader
		if entries, _, err := later.Next(t.Context()); err != nil || string(entries[0].Data) != "i" {
			t.Errorf("Next: %+v, %v", entries, err)
		}
		l.finish()
		write(out, "j") // from another process
		want("ab", "cd", "e", "f", "g", "h", "i", "j")
		if text, _ := drain(t, r); text != "hi" {
			t.Errorf("the rest is %q, want all output before the end", text)
		}
	})
}

func drain(t *testing.T, r *Reader) (text string, gap Gap) {
	t.Helper()
	for {
		entries, g, err := r.Next(t.Context())
		gap.Bytes += g.Bytes
		gap.Entries += g.Entries
		for _, e := range entries {
			text += string(e.Data)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return text, gap
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	l := written(6, "ab", "cd", "ef", "gh", "ij")
	l.finish()
	for _, tt := range []struct {
		r    *Reader
		text string
		gap  Gap
	}{
		{l.Follow(0), "efghij", Gap{Bytes: 4, Entries: 2}},
		{l.Follow(1), "efghij", Gap{Entries: 1}}, // the number of its bytes is unknown
		{l.Follow(2), "efghij", Gap{}},
		{l.Follow(4), "ij", Gap{}},
		{l.Follow(5), "", Gap{}},
		{l.Follow(1000), "", Gap{}},
		{l.Follow(^uint64(0)), "", Gap{}},
		{l.FollowBytes(0), "", Gap{}},
		{l.FollowBytes(1), "j", Gap{}},
		{l.FollowBytes(2), "ij", Gap{}},
		{l.FollowBytes(5), "fghij", Gap{}},
		{l.FollowBytes(6), "efghij", Gap{}},
		{l.FollowBytes(100), "efghij", Gap{}},
		{l.FollowBytes(-1), "efghij", Gap{}},
	} {
		before := *tt.r
		if text, gap := drain(t, tt.r); text != tt.text || gap != tt.gap {
			t.Errorf("from %d, %d: %q, %+v, want %q, %+v", before.next, before.pos, text, gap, tt.text, tt.gap)
		}
	}
}

// A reader knows how much of its output is earlier output.
func TestEarlier(t *testing.T) {
	t.Parallel()
	for last, want := range map[int]int64{0: 0, 3: 3, 6: 6, 100: 6, -1: 6} {
		l := written(10, "ab", "cdef")
		r := l.FollowBytes(last)
		_, _ = (&intake{log: l}).Write([]byte("later"))
		if got := r.Earlier(); got != want {
			t.Errorf("FollowBytes(%d).Earlier() = %d, want %d", last, got, want)
		}
	}
}

// A reader that is too slow gets a gap, also at the end.
func TestGap(t *testing.T) {
	t.Parallel()
	l := newLog(10)
	write := func(text string) { _, _ = (&intake{log: l}).Write([]byte(text)) }
	r := l.Follow(0)
	write("abcd")
	if entries, gap, err := r.Next(t.Context()); err != nil || len(entries) != 1 || gap != (Gap{}) {
		t.Fatalf("%+v, %+v, %v", entries, gap, err)
	}
	write("efgh")
	write("ijkl")
	write("mnop")
	entries, gap, err := r.Next(t.Context())
	if err != nil || gap != (Gap{Bytes: 4, Entries: 1}) || sequences(entries)[0] != 3 || string(entries[0].Data) != "ijkl" {
		t.Errorf("%+v, %+v, %v", entries, gap, err)
	}
	write("0123456789abcdef") // more than the log holds: its beginning is cut
	entries, gap, err = r.Next(t.Context())
	if err != nil || gap != (Gap{Bytes: 6}) || sequences(entries)[0] != 5 || string(entries[0].Data) != "6789abcdef" {
		t.Errorf("%+v, %+v, %v", entries, gap, err)
	}
	write("lost")
	l.finish()
	before := l.Follow(5)
	if text, gap := drain(t, before); text != "lost" || gap != (Gap{}) {
		t.Errorf("%q, %+v", text, gap)
	}
	write("later 1") // by a process that was left
	write("later 2")
	if text, gap := drain(t, r); text != "" || gap != (Gap{Bytes: 4, Entries: 1}) {
		t.Errorf("%q, %+v", text, gap)
	}
	if text, gap := drain(t, l.Follow(7)); text != "later 2" || gap != (Gap{}) {
		t.Errorf("%q, %+v", text, gap)
	}
}

func TestNextWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog(1000)
		r := l.Follow(0)
		got := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		next := func() {
			_, _, err := r.Next(ctx)
			got <- err
		}
		waits := func() {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-got:
				t.Errorf("Next returned %v without output", err)
			default:
			}
		}
		go next()
		waits()
		_, _ = (&intake{log: l}).Write([]byte("a"))
		if err := <-got; err != nil {
			t.Error(err)
		}
		go next()
		waits()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_, _ = (&intake{log: l}).Write([]byte("b"))
		go next() // ctx has ended, although there is output
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ctx = t.Context()
		go next()
		if err := <-got; err != nil {
			t.Error(err)
		}
		go next()
		waits()
		l.finish()
		if err := <-got; !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// Batches are bounded, so that slow readers keep little memory alive.
func TestBatches(t *testing.T) {
	t.Parallel()
	l := newLog(64 << 20)
	piece := []byte(strings.Repeat("x", 4096))
	for range 4096 {
		_, _ = (&intake{log: l}).Write(piece)
	}
	r := l.Follow(0)
	entries, _, err := r.Next(t.Context())
	if err != nil || len(entries) != batchBytes/4096 {
		t.Errorf("%d entries of 4 KiB in one call, %v, want %d", len(entries), err, batchBytes/4096)
	}
	l = newLog(64 << 20)
	for range 1000 {
		_, _ = (&intake{log: l}).Write([]byte("x"))
	}
	if entries, _, err := l.Follow(0).Next(t.Context()); err != nil || len(entries) != batchEntries {
		t.Errorf("%d small entries in one call, %v, want %d", len(entries), err, batchEntries)
	}
}

// The bytes and entries of a log are bounded, and so is the memory of their chunks.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	l := newLog(limit)
	in := &intake{log: l}
	for i := range 4_000_000 {
		copy(in.Space(), "x")
		in.Filled(1)
		if i%3 == 0 {
			l.seen = l.next - 1 // as if a reader had seen it: no pieces are merged
		}
	}
	if l.size > limit || len(l.records) > limit/entryRoom || cap(l.records) > 2*limit/entryRoom {
		t.Errorf("%d bytes, %d records in %d slots", l.size, len(l.records), cap(l.records))
	}
	if in.size > limit/16 {
		t.Errorf("chunks of %d bytes", in.size)
	}
	l.finish()
	if w := l.weight(); w > l.size+len(l.records)*64 {
		t.Errorf("weight %d of %d bytes in %d records", w, l.size, len(l.records))
	}
}

// model is a simple implementation of a log, with which a log is compared.
type model struct {
	t       *testing.T
	log     *Log
	all     []byte  // all output
	from    []uint8 // the stream of each byte
	intakes [2]*intake
	readers []*follower
	kept    []Entry // entries that were handed out
	copies  [][]byte
	over    bool
}

// follower is a reader and its expected position.
type follower struct {
	*Reader
	pos  int    // in bytes
	next uint64 // sequence
	end  int    // in bytes; -1: the process runs
}

func (m *model) write(stream uint8, n int) {
	for n > 0 {
		space := m.intakes[stream].Space()
		k := min(n, len(space))
		for i := range k {
			space[i] = byte(len(m.all) * 7)
			m.all = append(m.all, space[i])
			m.from = append(m.from, stream)
		}
		m.intakes[stream].Filled(k)
		n -= k
	}
}

// keep checks that an entry holds the output at an offset, and records it.
func (m *model) keep(e Entry, at int) {
	if len(e.Data) == 0 || at+len(e.Data) > len(m.all) || !bytes.Equal(e.Data, m.all[at:at+len(e.Data)]) {
		m.t.Fatalf("entry %d differs from the output at %d of %d", e.Sequence, at, len(m.all))
	}
	for _, s := range m.from[at : at+len(e.Data)] {
		if streams[s] != e.Stream {
			m.t.Fatalf("entry %d of %s has output of %s", e.Sequence, e.Stream, streams[s])
		}
	}
	m.kept = append(m.kept, e)
	m.copies = append(m.copies, bytes.Clone(e.Data))
}

// entries checks all kept entries.
func (m *model) entries() {
	entries := m.log.Entries(Query{})
	size := 0
	for _, e := range entries {
		size += len(e.Data)
	}
	if size > m.log.limit || len(entries) > m.log.maxRecords() {
		m.t.Fatalf("%d bytes in %d entries with a limit of %d", size, len(entries), m.log.limit)
	}
	at := len(m.all) - size
	for i, e := range entries {
		if e.Sequence != entries[0].Sequence+uint64(i) {
			m.t.Fatalf("sequence %d at place %d after %d", e.Sequence, i, entries[0].Sequence)
		}
		m.keep(e, at)
		at += len(e.Data)
	}
	if len(entries) == 0 && len(m.all) > 0 || len(entries) > 0 && entries[len(entries)-1].Sequence != m.log.next-1 {
		m.t.Fatalf("%d entries, and the next is %d", len(entries), m.log.next)
	}
}

// follow checks one step of a reader.
func (m *model) follow(f *follower) {
	w := f.read()
	if w.gap.Entries > 0 && w.gap.Bytes == 0 || w.gap.Bytes < 0 {
		m.t.Fatalf("gap %+v", w.gap)
	}
	f.pos += int(w.gap.Bytes)
	f.next += w.gap.Entries
	for _, e := range w.entries {
		if e.Sequence != f.next {
			m.t.Fatalf("sequence %d, want %d", e.Sequence, f.next)
		}
		m.keep(e, f.pos)
		f.next++
		f.pos += len(e.Data)
	}
	switch {
	case w.over && f.pos != f.end, f.end >= 0 && f.pos > f.end:
		m.t.Fatalf("the end at %d, want %d", f.pos, f.end)
	case !w.over && len(w.entries) == 0 && (f.end >= 0 || f.pos != len(m.all)):
		m.t.Fatalf("no entry at %d of %d, and not the end", f.pos, len(m.all))
	}
}

// reader adds a reader that begins at an offset.
func (m *model) reader(r *Reader, pos int, next uint64) {
	f := &follower{Reader: r, pos: pos, next: next, end: -1}
	if m.over {
		f.end = len(m.all)
	}
	m.readers = append(m.readers, f)
}

func (m *model) step(op, arg byte) {
	switch op % 8 {
	case 0, 1:
		m.write(op%2, int(arg))
	case 2:
		m.write(arg%2, int(arg)*40)
	case 3:
		if len(m.readers) > 0 {
			m.follow(m.readers[int(arg)%len(m.readers)])
		}
	case 4:
		r := m.log.FollowBytes(int(arg) - 1)
		m.reader(r, int(r.pos), r.next)
		if want := len(m.all) - min(int(arg)-1, m.log.size); arg > 0 && int(r.pos) != want {
			m.t.Fatalf("FollowBytes(%d) begins at %d, want %d", int(arg)-1, r.pos, want)
		}
	case 5:
		m.reader(m.log.Follow(0), 0, 1)
	case 6:
		m.entries()
	case 7:
		switch {
		case arg < 250:
			m.log.setLimit(1 + int(arg)*int(arg))
		case !m.over:
			m.log.finish()
			m.over = true
			for _, f := range m.readers {
				f.end = len(m.all)
			}
		}
	}
}

// FuzzLog compares a log with the model, for random writes and readers.
func FuzzLog(f *testing.F) {
	f.Add([]byte{5, 0, 0, 3, 3, 0, 1, 200, 6, 0, 4, 9, 3, 1, 7, 255, 0, 1, 3, 0, 3, 0, 3, 1})
	f.Add([]byte{7, 2, 5, 0, 0, 10, 3, 0, 2, 250, 2, 250, 3, 0, 4, 0, 3, 1, 6, 0})
	f.Add([]byte{7, 100, 5, 0, 2, 255, 2, 254, 2, 255, 2, 254, 7, 255, 2, 255, 3, 0, 3, 0, 3, 0})
	f.Add([]byte{7, 255, 0, 21, 5, 0, 0, 48, 3, 0}) // output after the end, and a reader before it
	f.Fuzz(func(t *testing.T, program []byte) {
		l := newLog(5000)
		m := &model{t: t, log: l}
		m.intakes = [2]*intake{{log: l, stream: stdout}, {log: l, stream: stderr}}
		for i := 0; i+1 < min(len(program), 400); i += 2 {
			m.step(program[i], program[i+1])
		}
		m.entries()
		for i := range m.readers {
			for range 2 {
				m.follow(m.readers[i])
			}
		}
		for i, e := range m.kept {
			if !bytes.Equal(e.Data, m.copies[i]) {
				t.Fatalf("entry %d has changed", e.Sequence)
			}
		}
	})
}
