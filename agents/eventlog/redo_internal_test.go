package eventlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// written are statements with arguments of every kind, as they come back.
func written(i int) (given, back []statement) {
	given = []statement{
		{"insert into a values ($1, $2)", []any{int64(i), fmt.Sprint("text ", i)}},
		{"", nil},
		{"update b", []any{nil, new(-i), (*int)(nil), []byte("bytes\x00"), []byte{}, []byte(nil), ""}},
	}
	back = []statement{
		{given[0].sql, given[0].args},
		{"", []any{}},
		{"update b", []any{nil, int64(-i), nil, []byte("bytes\x00"), []byte{}, []byte(nil), ""}},
	}
	return given, back
}

func redoAt(t testing.TB, path, id string) *redoLog {
	t.Helper()
	r, err := openRedo(path, id, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func numbers(t testing.TB, r *redoLog, last int64) (all []int64) {
	t.Helper()
	records, _, err := r.after(last)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range records {
		if _, want := written(int(one.number)); !reflect.DeepEqual(one.statements, want) {
			t.Errorf("%d: %#v, want %#v", one.number, one.statements, want)
		}
		all = append(all, one.number)
	}
	return all
}

// TestRedoLog: what was appended comes back, from both halves and in order, but
// not what is older, another database's, or behind a gap.
func TestRedoLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.db")
	r := redoAt(t, path, "mine")
	add := func(from, to int) {
		t.Helper()
		for i := from; i <= to; i++ {
			given, _ := written(i)
			if err := r.append(int64(i), given); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(last int64, want ...int64) {
		t.Helper()
		if got := numbers(t, redoAt(t, path, "mine"), last); !reflect.DeepEqual(got, want) {
			t.Errorf("after %d: %v, want %v", last, got, want)
		}
	}
	expect(0)
	add(1, 5)
	r.turn(1)
	add(6, 8)
	expect(0, 1, 2, 3, 4, 5, 6, 7, 8)
	expect(6, 7, 8)
	expect(8)
	r.turn(0) // those that were there stay behind the new ones
	add(9, 10)
	expect(5, 6, 7, 8, 9, 10)
	expect(8, 9, 10)
	expect(4) // 5 is not there any more: nothing after it can be trusted
	if got := numbers(t, redoAt(t, path, "another"), 0); got != nil {
		t.Errorf("another database's: %v", got)
	}
	r.turn(1)
	given, _ := written(11)
	for n := int64(11); ; n++ {
		if err := r.append(n, given); err != nil {
			if err != errRedoFull || n < 1000 { //nolint:errorlint // it is that one
				t.Errorf("%d: %v", n, err)
			}
			break
		}
	}
}

// TestTornRedoLog: of a log that was cut off, or has something else from
// somewhere on, the records before that are there.
func TestTornRedoLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.db")
	r := redoAt(t, path, "mine")
	for i := 1; i <= 3; i++ {
		given, _ := written(i)
		if err := r.append(int64(i), given); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path + redoSuffix)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range r.at {
		torn := append(bytes.Clone(whole[:cut]), bytes.Repeat([]byte{0xa5}, len(whole)-cut)...)
		if err := os.WriteFile(path+redoSuffix, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := len(numbers(t, r, 0)), cut*3/r.at; got != want {
			t.Errorf("of %d bytes %d: %d records, want %d", r.at, cut, got, want)
		}
	}
}

// TestRoomForAll: who finds the disk full, while another one does and makes room,
// tries again, too.
func TestRoomForAll(t *testing.T) {
	t.Parallel()
	s := &staged{redo: redoAt(t, filepath.Join(t.TempDir(), "log.db"), "mine"), spare: true}
	one, other := s.room(), s.room()
	if !s.release(one) || !s.release(other) {
		t.Error("one of two that the disk was full for does not hear of the room")
	}
	if s.release(s.room()) {
		t.Error("there is room once more")
	}
}

// TestStagedHalves: neither half is written over before the database has it.
func TestStagedHalves(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.db")
	s := &staged{redo: redoAt(t, path, "mine"), spare: true, apply: func() error { return nil }}
	add := func(want bool) {
		t.Helper()
		given, _ := written(int(s.number) + 1)
		if got := s.add(given); got != want {
			t.Fatalf("commit %d is staged: %v, want %v", s.number, got, want)
		}
	}
	t.Cleanup(s.close)
	count := func(last int64, want int) {
		t.Helper()
		if got := len(numbers(t, s.redo, last)); got != want {
			t.Fatalf("%d records after %d, want %d", got, last, want)
		}
	}
	add(true)
	first := s.take()
	add(true) // beside those that are being taken over
	add(true)
	count(0, 3)
	s.failed(first)
	add(false) // not before the first are there
	all := s.take()
	if n := len(all.statements); n != 9 {
		t.Errorf("%d statements", n)
	}
	add(false) // neither half is free
	count(0, 3)
	s.done(all)
	if s.dirty.Load() || s.known != 3 {
		t.Errorf("dirty %v, known %d", s.dirty.Load(), s.known)
	}
	add(true)
	second := s.take()
	add(true)
	s.done(second)
	if !s.dirty.Load() {
		t.Error("the newest commit is in the redo log alone, and nobody knows")
	}
	count(4, 1)
	large := []statement{{"x", []any{make([]byte, stageBytes)}}}
	if s.add(large) {
		t.Error("a large commit was staged")
	}
	if s.add([]statement{{requestUpsert, []any{"life", int64(0), "1", "", "public"}}}) {
		t.Error("a commit was staged that the database may refuse")
	}
	s.close()
	add(false)
}

// FuzzStatements: nothing that a file may have does harm, and what is read is
// what was written.
func FuzzStatements(f *testing.F) {
	for i := range 2 {
		given, _ := written(i)
		f.Add(encodeStatements(nil, given))
	}
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := decodeStatements(b)
		if err != nil {
			return
		}
		again, err := decodeStatements(encodeStatements(nil, all))
		if err != nil || !reflect.DeepEqual(all, again) {
			t.Errorf("%#v, again %#v, %v", all, again, err)
		}
	})
}

// TestGapInRedoLog: what is behind a gap is dropped for good.
func TestGapInRedoLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.db")
	r := redoAt(t, path, "mine")
	add := func(r *redoLog, from, to int) {
		for i := from; i <= to; i++ {
			given, _ := written(i)
			if err := r.append(int64(i), given); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.turn(1)
	add(r, 11, 20) // those before did not reach the disk
	if records, dropped, err := r.after(0); len(records) != 0 || len(dropped) != 10 || err != nil {
		t.Errorf("%d records, %d dropped, %v", len(records), len(dropped), err)
	}
	next := redoAt(t, path, "mine")
	next.sign("mine, opened again")
	add(next, 1, 12)
	if got := numbers(t, redoAt(t, path, "mine, opened again"), 0); len(got) != 12 {
		t.Errorf("%v", got)
	}
}
