package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/webrtc"
)

// TestCreateCancelled ends the context of Create while the desktop starts.
func TestCreateCancelled(t *testing.T) {
	t.Parallel()
	fake := faker{result: make(chan error)}
	f := open(t, Config{Start: fake.start})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Create(ctx, "one", StartOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Create = %v, want the error of its context", err)
	}
	if all := f.List(); len(all) != 1 || all[0].ID() != Main {
		t.Errorf("the fleet has %d desktops, want main alone", len(all))
	}
}

// TestMinMemory wants no start while too little memory is available.
func TestMinMemory(t *testing.T) {
	t.Parallel()
	var fake faker
	f := open(t, Config{Start: fake.start, MinMemory: math.MaxInt64})
	if _, err := f.Create(t.Context(), "one", StartOptions{}); !errors.Is(err, ErrNoMemory) {
		t.Errorf("Create = %v", err)
	}
	if n := len(f.List()); n != 1 {
		t.Errorf("the fleet has %d desktops, want main alone", n)
	}
}

// TestErrorsOfCreate checks the errors of Create and Open.
func TestErrorsOfCreate(t *testing.T) {
	t.Parallel()
	var fake faker
	f := open(t, Config{Start: fake.start, MaxDesktops: 2})
	if _, err := f.Create(t.Context(), "one", StartOptions{}); err != nil {
		t.Fatal(err)
	}
	var limit *LimitError
	var bad *InvalidError
	if _, err := f.Create(t.Context(), "No Desktop", StartOptions{}); !errors.As(err, &bad) || bad.Field != "ID" || !errors.Is(err, ErrInvalid) {
		t.Errorf("an id with a space: %v", err)
	}
	if _, err := f.Create(t.Context(), "two", StartOptions{}); !errors.As(err, &limit) || limit.Limit != 2 || !errors.Is(err, ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	f.cfg.MaxDesktops = 3
	var about *Error
	if _, err := f.Create(t.Context(), "one", StartOptions{}); !errors.Is(err, ErrExists) || !errors.As(err, &about) || about.ID != "one" {
		t.Errorf("an id that is taken: %v", err)
	}
	if !f.beginRemoving("old") {
		t.Fatal("beginRemoving refuses an id that no desktop has")
	}
	if _, err := f.Create(t.Context(), "old", StartOptions{}); !errors.Is(err, ErrRemoving) {
		t.Errorf("an id whose files are being removed: %v", err)
	}
	f.endRemoving("old")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(t.Context(), "two", StartOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if n := fake.open.Load(); n != 0 {
		t.Errorf("%d desktops are open after Close", n)
	}
	for name, cfg := range map[string]Config{
		"MaxDesktops": {MaxDesktops: -1}, "MinMemory": {MinMemory: -1}, "StateName": {StateName: "../x"}, "RunAs": {RunAs: "no such user"},
		"Untrusted": {Untrusted: []string{"no such user"}}, "Media": {Media: webrtc.NetworkConfig{UDPPort: 70000}},
	} {
		if _, err := Open(t.Context(), cfg); !errors.As(err, &bad) || bad.Field != name {
			t.Errorf("Open with %s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that has ended: %v", err)
	}
}

// TestStates checks the states of a desktop through starts and stops.
func TestStates(t *testing.T) {
	t.Parallel()
	fake := faker{result: make(chan error)}
	f := open(t, Config{Start: fake.start})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	want := func(state desktop.State, cause error) {
		t.Helper()
		_, err := in.Desktop()
		var e *StateError
		if !errors.As(err, &e) || !errors.Is(err, ErrNotRunning) || e.State != state || !errors.Is(e.Cause, cause) || cause != nil && errors.Is(err, cause) {
			t.Errorf("Desktop: %v, want %s with %v", err, state, cause)
		}
		if s := in.Status(); s.State != state || !errors.Is(s.Err, cause) || s.ID != Main || s.LogPath == "" || s.Desktop != nil {
			t.Errorf("Status: %+v, want %s with %v", s, state, cause)
		}
	}
	want(desktop.StateInactive, nil)
	if _, err := in.Record(t.Context(), recording.Config{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Record of a desktop that does not run: %v", err)
	}
	broken := errors.New("it does not start")
	result := make(chan error, 1)
	start := func() { result <- in.Start(t.Context(), StartOptions{}) }
	go start()
	fake.result <- broken
	if err := <-result; !errors.Is(err, broken) {
		t.Errorf("a failed start: %v", err)
	}
	want(desktop.StateFailed, broken)
	go start()
	until(t, "the start begins", func() bool { return in.Status().State == desktop.StateStarting })
	want(desktop.StateStarting, nil)
	if err := in.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrStopped) {
		t.Errorf("a start that was stopped: %v", err)
	}
	want(desktop.StateInactive, nil)
	go start()
	fake.result <- nil
	if err := <-result; err != nil {
		t.Error(err)
	}
	if s := in.Status(); s.State != desktop.StateActive || s.Desktop == nil {
		t.Errorf("Status of a running desktop: %+v", s)
	}
	if _, err := in.Stream(t.Context()); !errors.Is(err, ErrNoLiveView) {
		t.Errorf("Stream of a desktop without one: %v", err)
	}
	if _, err := in.RecordExclusive(t.Context(), recording.Config{}); !errors.Is(err, ErrNoRecording) {
		t.Errorf("RecordExclusive of a desktop without recordings: %v", err)
	}
	if err := in.EndViewer("x", func(webrtc.ViewerInfo) bool { return true }); !errors.Is(err, webrtc.ErrViewerNotFound) {
		t.Errorf("EndViewer of none: %v", err)
	}
	if err := in.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	want(desktop.StateInactive, nil)
	if again, err := f.Find(Main); again != in {
		t.Errorf("Main after Delete: %v, %v", again, err)
	}
}

// TestDelete: OnDelete is called before the id is free. A deleted desktop does not start and
// has no recordings.
func TestDelete(t *testing.T) {
	t.Parallel()
	var fake faker
	var f *Fleet
	var hooked []string
	f = open(t, Config{Start: fake.start, OnDelete: func(id string) {
		_, err := f.Find(id)
		hooked = append(hooked, fmt.Sprint(id, err, fake.open.Load()))
	}})
	in, err := f.Create(t.Context(), "", StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	files := fake.cfg.Load().StateDir
	if err := os.MkdirAll(filepath.Join(files, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := in.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Delete(t.Context()); err != nil {
		t.Errorf("a second Delete: %v", err)
	}
	if want := fmt.Sprint(in.ID(), error(nil), 0); len(hooked) != 1 || hooked[0] != want {
		t.Errorf("OnDelete: %q, want %q", hooked, want)
	}
	if _, err := os.Stat(files); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of a desktop whose id was chosen by the fleet: %v", err)
	}
	if err := in.Start(t.Context(), StartOptions{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Start of a deleted desktop: %v", err)
	}
	if _, err := in.Recordings(t.Context()); !errors.Is(err, recording.ErrClosed) {
		t.Errorf("Recordings of a deleted desktop: %v", err)
	}
	for _, find := range []func(string) (*Instance, error){f.Find, f.FindRecorded} {
		if _, err := find(in.ID()); !errors.Is(err, ErrNotFound) {
			t.Errorf("find a deleted desktop: %v", err)
		}
	}
}

// TestDirectories: the Fleet keeps the directories that a caller chooses, and chooses the others.
func TestDirectories(t *testing.T) {
	t.Parallel()
	var fake faker
	dir, own := t.TempDir(), t.TempDir()
	f := open(t, Config{Start: fake.start, StateDir: dir})
	for id, tt := range map[string]struct{ given, want desktop.Config }{
		"usual":  {desktop.Config{}, desktop.Config{StateDir: filepath.Join(dir, "desktops", "usual"), Home: filepath.Join(dir, "desktops", "usual", "home")}},
		"home":   {desktop.Config{Home: own}, desktop.Config{StateDir: filepath.Join(dir, "desktops", "home"), Home: own}},
		"moved":  {desktop.Config{StateDir: own, RunAs: "www-data"}, desktop.Config{StateDir: own}},
		"others": {desktop.Config{ID: "x", StateDir: own, Home: dir}, desktop.Config{StateDir: own, Home: dir}},
	} {
		if _, err := f.Create(t.Context(), id, StartOptions{Desktop: tt.given}); err != nil {
			t.Fatal(err)
		}
		got := fake.cfg.Load()
		if got.ID != id || got.StateDir != tt.want.StateDir || got.Home != tt.want.Home || got.RunAs != "" || got.Logger == nil {
			t.Errorf("%s: %+v, want %+v", id, got, tt.want)
		}
	}
}

// TestReplaceableDirs: directories that programs of another user could replace are refused.
// Package supervise tests which directories these are.
func TestReplaceableDirs(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	theirs := t.TempDir()
	if err := os.Chown(theirs, int(u.Credential.Uid), 0); err != nil {
		t.Fatal(err)
	}
	theirs = filepath.Join(theirs, "a")
	for field, cfg := range map[string]Config{
		"":              {},
		"StateDir":      {StateDir: theirs},
		"RecordingsDir": {RecordingsDir: theirs},
	} {
		cfg.StateDir = cmp.Or(cfg.StateDir, t.TempDir())
		for _, who := range []Config{{RunAs: "www-data"}, {Untrusted: []string{"www-data"}}} {
			cfg.RunAs, cfg.Untrusted = who.RunAs, who.Untrusted
			f, err := Open(t.Context(), cfg)
			if err == nil {
				err = f.Close()
			}
			checkReplaceable(t, field, err)
		}
	}
	f := open(t, Config{StateDir: t.TempDir(), Untrusted: []string{"www-data"}})
	in, err := f.Find(Main)
	if err != nil {
		t.Fatal(err)
	}
	checkReplaceable(t, "Desktop.StateDir", in.Start(t.Context(), StartOptions{Desktop: desktop.Config{StateDir: theirs}}))
}

// checkReplaceable checks that err is about a replaceable directory in field, or is nil if
// field is empty.
func checkReplaceable(t *testing.T, field string, err error) {
	t.Helper()
	var bad *InvalidError
	switch {
	case field == "":
		if err != nil {
			t.Error(err)
		}
	case !errors.As(err, &bad) || bad.Field != field || !strings.Contains(bad.Reason, `can be changed by user "www-data"`):
		t.Errorf("%s: %v", field, err)
	}
}
