package x11_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// openClipboard makes a clipboard on a separate connection.
func openClipboard(tb testing.TB, s *testx11.Server) *x11.Clipboard {
	tb.Helper()
	cb, err := s.Dial(tb).NewClipboard()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cb.Close() })
	return cb
}

// soon bounds a test's step.
func soon(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	tb.Cleanup(cancel)
	return ctx
}

// xclip prints what xclip reads from a selection.
func xclip(tb testing.TB, s *testx11.Server, args ...string) ([]byte, error) {
	tb.Helper()
	cmd := exec.CommandContext(soon(tb), "xclip", append([]string{"-o"}, args...)...)
	cmd.Env = s.Env()
	return cmd.Output()
}

// serveXclip has xclip own a selection until the test ends, or the returned
// function is called.
func serveXclip(tb testing.TB, s *testx11.Server, cb *x11.Clipboard, data []byte, args ...string) (kill func()) {
	tb.Helper()
	testx11.Require(tb, "xclip")
	path := filepath.Join(tb.TempDir(), "content")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	name := "CLIPBOARD"
	if slices.Contains(args, "primary") {
		name = "PRIMARY"
	}
	x, _ := s.Dial(tb).Raw()
	atom, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		tb.Fatal(err)
	}
	owner := func() xproto.Window {
		r, err := xproto.GetSelectionOwner(x, atom.Atom).Reply()
		if err != nil {
			tb.Fatal(err)
		}
		return r.Owner
	}
	before := owner()
	changed := make(chan struct{}, 1)
	cb.OnChange(func(x11.SelectionName) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	cmd := exec.Command("xclip", append(append([]string{"-quiet", "-i"}, args...), path)...)
	cmd.Env = s.Env()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	tb.Cleanup(kill)
	poll(tb, "xclip takes the selection", func() bool { return owner() != before })
	<-changed // may be an earlier change
	return kill
}

// longText is text of at least n bytes with all lengths of UTF-8 sequences.
func longText(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		b.WriteString("line é 漢字 😀 ")
		b.WriteString(strings.Repeat("x", i%71))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// noisyPNG is a picture that does not compress, of about 3 bytes per pixel.
func noisyPNG(tb testing.TB, width, height int) []byte {
	tb.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32()) | byte(i%4/3*255) // alpha stays opaque
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func wantBytes(tb testing.TB, got, want []byte) {
	tb.Helper()
	if !bytes.Equal(got, want) {
		tb.Errorf("got %d bytes, want %d; they differ", len(got), len(want))
	}
}

func TestSelectionXclipReads(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xclip")
	s := testx11.Start(t, 320, 200)
	cb := openClipboard(t, s)
	picture := noisyPNG(t, 400, 380)
	tests := []struct {
		name    string
		sel     x11.SelectionName
		content x11.Content
		args    []string
	}{
		{"short", x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: []byte("héllo 漢 😀\n")}, []string{"-selection", "clipboard"}},
		{"primary", x11.SelectionPrimary, x11.Content{Type: x11.TypeText, Data: []byte("marked")}, []string{"-selection", "primary"}},
		{"empty", x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: []byte{}}, []string{"-selection", "clipboard"}},
		{"10 MB", x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: longText(10_000_000)}, []string{"-selection", "clipboard"}},
		{"PNG", x11.SelectionClipboard, x11.Content{Type: x11.TypePNG, Data: picture}, []string{"-selection", "clipboard", "-t", "image/png"}},
		{"PNG on primary", x11.SelectionPrimary, x11.Content{Type: x11.TypePNG, Data: picture}, []string{"-selection", "primary", "-t", "image/png"}},
		{"MIME text", x11.SelectionClipboard, x11.Content{Type: "text/plain", Data: []byte("é")}, []string{"-selection", "clipboard", "-t", x11.TypeText}},
		{"another type", x11.SelectionClipboard, x11.Content{Type: "text/html", Data: []byte("<b>é</b>")}, []string{"-selection", "clipboard", "-t", "text/html"}},
	}
	for _, tt := range tests { // one after the other: they share the selections
		t.Run(tt.name, func(t *testing.T) {
			if err := cb.Set(soon(t), tt.sel, tt.content); err != nil {
				t.Fatal(err)
			}
			got, err := xclip(t, s, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			wantBytes(t, got, tt.content.Data)
		})
	}
}

func TestSelectionXclipServes(t *testing.T) {
	t.Parallel()
	text, picture := longText(10_000_000), noisyPNG(t, 400, 380)
	tests := []struct {
		name string
		sel  x11.SelectionName
		typ  string
		data []byte
		args []string
	}{
		{"short", x11.SelectionClipboard, x11.TypeText, []byte("héllo 漢 😀\n"), []string{"-selection", "clipboard"}},
		{"primary", x11.SelectionPrimary, "", []byte("marked"), []string{"-selection", "primary"}},
		{"10 MB", x11.SelectionClipboard, x11.TypeText, text, []string{"-selection", "clipboard"}},
		{"PNG", x11.SelectionClipboard, x11.TypePNG, picture, []string{"-selection", "clipboard", "-t", "image/png"}},
		{"Latin-1", x11.SelectionClipboard, x11.TypeText, []byte("caf\xe9"), []string{"-selection", "clipboard", "-noutf8"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 320, 200)
			cb := openClipboard(t, s)
			serveXclip(t, s, cb, tt.data, tt.args...)
			got, err := cb.Get(soon(t), tt.sel, tt.typ, x11.MaxContent)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.data
			if tt.name == "Latin-1" {
				want = []byte("café")
			}
			wantBytes(t, got, want)
			other := x11.TypePNG
			if tt.typ == x11.TypePNG {
				other = x11.TypeText
			}
			if _, err := cb.Get(soon(t), tt.sel, other, x11.MaxContent); !errors.Is(err, x11.ErrNoContent) {
				t.Errorf("Get(%s) = %v, want ErrNoContent", other, err)
			}
		})
	}
}

func TestSelectionEmpty(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, other := openClipboard(t, s), openClipboard(t, s)
	check := func(when string, cb *x11.Clipboard) {
		t.Helper()
		for _, typ := range []string{x11.TypeText, x11.TypePNG} {
			if got, err := cb.Get(soon(t), x11.SelectionClipboard, typ, x11.MaxContent); !errors.Is(err, x11.ErrNoContent) {
				t.Errorf("%s: Get(%s) = %q, %v, want ErrNoContent", when, typ, got, err)
			}
		}
	}
	check("at first", cb)
	text := x11.Content{Type: x11.TypeText, Data: []byte("x")}
	if err := cb.Set(soon(t), x11.SelectionClipboard, text); err != nil {
		t.Fatal(err)
	}
	if err := cb.Close(); err != nil {
		t.Fatal(err)
	}
	check("after the owner closed", other)
	if _, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("Get after Close: %v, want ErrConnClosed", err)
	}
	if err := other.Set(soon(t), "SECONDARY", text); err == nil {
		t.Error("Set of an unknown selection succeeded")
	}
}

// TestSelectionForms offers contents of several types, which another clipboard, their
// owner and an independent client read.
func TestSelectionForms(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xclip")
	s := testx11.Start(t, 320, 200)
	owner, reader := openClipboard(t, s), openClipboard(t, s)
	for _, c := range []struct {
		x11.Content
		targets []string          // beside TARGETS, TIMESTAMP and MULTIPLE
		read    map[string]string // by target
	}{
		{
			x11.Content{Type: x11.TypeText, Data: []byte("café")},
			[]string{"UTF8_STRING", "STRING", "TEXT", x11.TypeText},
			map[string]string{"STRING": "caf\xe9", "TEXT": "caf\xe9", "UTF8_STRING": "café"},
		},
		{x11.Content{Type: "text/html", Data: []byte("<i>café</i>")}, []string{"text/html"}, nil},
		{x11.Content{Type: x11.TypePNG, Data: noisyPNG(t, 300, 300)}, []string{x11.TypePNG}, nil}, // in pieces
	} {
		if err := owner.Set(soon(t), x11.SelectionClipboard, c.Content); err != nil {
			t.Fatal(err)
		}
		for name, cb := range map[string]*x11.Clipboard{"owner": owner, "reader": reader} {
			got, err := cb.Get(soon(t), x11.SelectionClipboard, c.Type, x11.MaxContent)
			if err != nil {
				t.Fatalf("%s: %s: %v", c.Type, name, err)
			}
			wantBytes(t, got, c.Data)
		}
		targets, err := xclip(t, s, "-selection", "clipboard", "-t", "TARGETS")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(c.targets, "TARGETS", "TIMESTAMP", "MULTIPLE") {
			if !slices.Contains(strings.Fields(string(targets)), want) {
				t.Errorf("%s: TARGETS lacks %s: %q", c.Type, want, targets)
			}
		}
		for target, want := range c.read {
			if got, err := xclip(t, s, "-selection", "clipboard", "-t", target); err != nil || string(got) != want {
				t.Errorf("%s as %s: %q, %v, want %q", c.Type, target, got, err, want)
			}
		}
		for _, target := range []string{"SAVE_TARGETS", "DELETE", "image/jpeg"} {
			if got, err := xclip(t, s, "-selection", "clipboard", "-t", target); err == nil {
				t.Errorf("%s as %s: %q, want a refusal", c.Type, target, got)
			}
		}
	}
}

func TestSelectionParallel(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xclip")
	s := testx11.Start(t, 320, 200)
	owner, reader := openClipboard(t, s), openClipboard(t, s)
	text, picture := longText(3_000_000), noisyPNG(t, 400, 380)
	if err := owner.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: text}); err != nil {
		t.Fatal(err)
	}
	if err := owner.Set(soon(t), x11.SelectionPrimary, x11.Content{Type: x11.TypePNG, Data: picture}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := reader.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
			if err != nil {
				t.Error(err)
			}
			wantBytes(t, got, text)
		})
		wg.Go(func() {
			got, err := reader.Get(soon(t), x11.SelectionPrimary, x11.TypePNG, x11.MaxContent)
			if err != nil {
				t.Error(err)
			}
			wantBytes(t, got, picture)
		})
		wg.Go(func() {
			got, err := xclip(t, s, "-selection", "clipboard")
			if err != nil {
				t.Error(err)
			}
			wantBytes(t, got, text)
		})
	}
	wg.Wait()
}

// A transfer continues when the selection gets another owner meanwhile.
func TestSelectionReplacedDuringTransfer(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	owner, reader := openClipboard(t, s), openClipboard(t, s)
	old := longText(8_000_000)
	if err := owner.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: old}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		got, err := reader.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
		if err != nil {
			t.Error(err)
		}
		if len(got) != 3 {
			wantBytes(t, got, old)
		}
	})
	if err := openClipboard(t, s).Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	// The first owner knows that it lost the selection.
	got, err := owner.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
	if err != nil || string(got) != "new" {
		t.Errorf("Get() = %q, %v, want the new text", got, err)
	}
}

func TestSelectionOwnerKilled(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb := openClipboard(t, s)
	kill := serveXclip(t, s, cb, []byte("x"), "-selection", "clipboard")
	gone := make(chan struct{}, 8)
	cb.OnChange(func(x11.SelectionName) { gone <- struct{}{} })
	kill()
	select {
	case <-gone:
	case <-soon(t).Done():
		t.Fatal("no OnChange when the owner died")
	}
	if _, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent); !errors.Is(err, x11.ErrNoContent) {
		t.Errorf("Get() = %v, want ErrNoContent", err)
	}
}

func TestSelectionOnChange(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb := openClipboard(t, s)
	heard := make(chan string, 16)
	cb.OnChange(func(sel x11.SelectionName) {
		got, err := cb.Get(t.Context(), sel, x11.TypeText, x11.MaxContent)
		if t.Context().Err() != nil {
			return // the test is over, and its owners close
		}
		if err != nil {
			t.Error(err)
		}
		heard <- string(sel) + " " + string(got)
	})
	next := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("heard %q, want %q", got, want)
			}
		case <-soon(t).Done():
			t.Fatalf("did not hear of %q", want)
		}
	}
	set := func(cb *x11.Clipboard, sel x11.SelectionName, text string) {
		t.Helper()
		if err := cb.Set(soon(t), sel, x11.Content{Type: x11.TypeText, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	set(cb, x11.SelectionClipboard, "own")
	next("CLIPBOARD own")
	set(cb, x11.SelectionClipboard, "own again")
	next("CLIPBOARD own again")
	set(openClipboard(t, s), x11.SelectionPrimary, "another's")
	next("PRIMARY another's") // and nothing twice
}
