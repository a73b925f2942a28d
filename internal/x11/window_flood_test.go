package x11_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// TestFloodOfWindows has a program name more windows than List returns, each several times
// and with long texts, while many callers list the windows.
func TestFloodOfWindows(t *testing.T) {
	const (
		windows = 600
		told    = 512
		callers = 30
		most    = 50 << 20
	)
	s := testx11.Start(t, 320, 200)
	x, root := s.Dial(t).Raw()
	atom := func(name string) xproto.Atom {
		r, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return r.Atom
	}
	set := func(win xproto.Window, name, kind xproto.Atom, format byte, value []byte) {
		if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, win, name, kind, format,
			uint32(len(value)/int(format/8)), value).Check(); err != nil {
			t.Fatal(err)
		}
	}
	var ids []x11.Window
	var list []byte
	long := bytes.Repeat([]byte("x"), 4096)
	for range windows {
		win := bareWindow(t, x, root)
		for _, name := range []xproto.Atom{atom("_NET_WM_NAME"), xproto.AtomWmName, xproto.AtomWmClass} {
			set(win, name, xproto.AtomString, 8, long)
		}
		ids = append(ids, win)
		list = binary.LittleEndian.AppendUint32(list, uint32(win))
		list = binary.LittleEndian.AppendUint32(list, uint32(ids[0]))
	}
	set(root, atom("_NET_CLIENT_LIST"), xproto.AtomWindow, 32, slices.Concat(list, list, list))

	w, err := s.Dial(t).NewWindows()
	if err != nil {
		t.Fatal(err)
	}
	infos, err := w.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make([]x11.Window, 0, len(infos))
	for _, info := range infos {
		got = append(got, info.ID)
	}
	if !slices.Equal(got, ids[:told]) {
		t.Errorf("List() = %d windows, want the first %d of %d, each once", len(got), told, windows)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	results := make(chan error, callers)
	for range callers {
		go func() {
			_, err := w.List(t.Context())
			results <- err
		}()
	}
	var peak uint64
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range callers {
		for waiting := true; waiting; {
			select {
			case <-tick.C:
			case err := <-results:
				if waiting = false; err != nil {
					t.Error(err)
				}
			}
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
	}
	if grown := int64(peak) - int64(before.HeapAlloc); grown > most {
		t.Errorf("the heap grew by %d MiB for %d lists, want at most %d", grown>>20, callers, most>>20)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.List(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("List() = %v after its context has ended", err)
	}
}

// TestLongTitles has windows with texts of more bytes than are read, whose end is within a
// character.
func TestLongTitles(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	x, root := s.Dial(t).Raw()
	win := bareWindow(t, x, root)
	name := "_NET_CLIENT_LIST"
	list, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	title, class := strings.Repeat("漢", 2000), strings.Repeat("字", 300)
	for _, p := range []struct {
		win        xproto.Window
		name, kind xproto.Atom
		format     byte
		value      string
	}{
		{root, list.Atom, xproto.AtomWindow, 32, string(binary.LittleEndian.AppendUint32(nil, uint32(win)))},
		{win, xproto.AtomWmName, xproto.AtomString, 8, title},
		{win, xproto.AtomWmClass, xproto.AtomString, 8, class + "\x00" + class},
	} {
		if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, p.win, p.name, p.kind, p.format,
			uint32(len(p.value)/int(p.format/8)), []byte(p.value)).Check(); err != nil {
			t.Fatal(err)
		}
	}
	w, err := s.Dial(t).NewWindows()
	if err != nil {
		t.Fatal(err)
	}
	infos, err := w.List(t.Context())
	if err != nil || len(infos) != 1 {
		t.Fatalf("List() = %v, %v, want one window", infos, err)
	}
	title, class = strings.Repeat("漢", 256), strings.Repeat("字", 256)
	if i := infos[0]; i.Title != title || i.Instance != class || i.Class != class {
		t.Errorf("List() = %+v, want the first 256 characters of each text", i)
	}
}
