package httpapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// scripted is a desktop that starts and stops when the test says so. Everything
// else about desktops is tested on real ones.
type scripted struct {
	anyDesktop
	closing chan struct{} // receives when Close is called
	close   chan error    // what Close returns
	open    atomic.Int32  // how many are not closed
	err     error         // what other calls return
}

// factory starts scripted desktops.
type factory struct {
	*scripted
	starting chan desktop.Config // receives when a start is asked for
	start    chan error          // what the start returns
}

func newFactory() *factory {
	return &factory{
		&scripted{closing: make(chan struct{}), close: make(chan error)},
		make(chan desktop.Config), make(chan error),
	}
}

func (f *factory) make(ctx context.Context, _ string, cfg desktop.Config) (fleet.Desktop, error) {
	f.starting <- cfg
	select {
	case err := <-f.start:
		if err != nil {
			return nil, err
		}
		f.open.Add(1)
		return f.scripted, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) Status() desktop.Status {
	return desktop.Status{State: desktop.StateActive, Display: ":7", Size: desktop.Size{Width: 10, Height: 10}}
}

func (s *scripted) Close() error {
	s.closing <- struct{}{}
	err := <-s.close
	s.open.Add(-1)
	return err
}

func (s *scripted) Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error) {
	return nil, s.err
}

func (s *scripted) Pointer(context.Context) (desktop.Pointer, error) {
	if s.err == nil {
		panic("a fault")
	}
	return desktop.Pointer{}, s.err
}

// later makes a call while the test goes on.
func later(t *testing.T, s *testServer, c call) <-chan answer {
	t.Helper()
	done := make(chan answer, 1)
	go func() { done <- s.try(t.Context(), c) }()
	return done
}

func state(t *testing.T, s *testServer) any {
	t.Helper()
	return s.get(t, "/v1/desktop/status").want(t, 200).json(t)["state"]
}

var (
	startMain = call{method: "POST", path: "/v1/desktop/start"}
	stopMain  = call{method: "POST", path: "/v1/desktop/stop"}
)

// end lets the server's last desktop close when the server does.
func (f *factory) end(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if n := f.open.Load(); n != 0 {
			t.Errorf("%d desktops were left open", n)
		}
	})
}

func TestStartsAreOne(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := serve(t, Config{Start: f.make})
	var all []<-chan answer
	for range 8 {
		all = append(all, later(t, s, startMain))
	}
	cfg := <-f.starting
	if cfg.Display != 99 || cfg.ID != "main" || !cfg.ShareAuthority {
		t.Errorf("config = %+v", cfg)
	}
	if got := state(t, s); got != "starting" {
		t.Errorf("state = %v, want starting", got)
	}
	s.get(t, "/v1/desktop/screenshot").problem(t, 409, "desktop_runtime_starting")
	f.start <- nil
	for _, a := range all {
		if got := (<-a).want(t, 200).json(t); got["state"] != "active" || got["display"] != ":7" {
			t.Errorf("start = %v", got)
		}
	}
	stop := later(t, s, stopMain)
	<-f.closing
	if got := state(t, s); got != "stopping" {
		t.Errorf("state = %v, want stopping", got)
	}
	s.get(t, "/v1/desktop/screenshot").problem(t, 409, "desktop_runtime_starting")
	again := later(t, s, startMain) // waits for the stop
	f.close <- errors.New("a part did not end in time")
	if got := (<-stop).want(t, 200).json(t)["state"]; got != "inactive" && got != "starting" {
		t.Errorf("state after stop = %v", got)
	}
	<-f.starting
	f.start <- nil
	(<-again).want(t, 200)
	go func() { <-f.closing; f.close <- nil }()
	s.do(t, stopMain).want(t, 200)
}

func TestStopCancelsStart(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := serve(t, Config{Start: f.make})
	start := later(t, s, startMain)
	<-f.starting
	if got := s.do(t, stopMain).want(t, 200).json(t)["state"]; got != "inactive" {
		t.Errorf("state = %v, want inactive", got)
	}
	(<-start).problem(t, 409, "desktop_runtime_inactive")
	if got := s.get(t, "/v1/desktop/status").json(t); got["state"] != "inactive" || got["lastError"] != nil {
		t.Errorf("status = %v", got)
	}
}

func TestFailedStart(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := serve(t, Config{Start: f.make})
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("start Xvfb: it exited"), 503, "desktop_runtime_failed"},
		{fmt.Errorf("start desktop main: %w", &desktop.InvalidError{Field: "size", Reason: "must not be larger than maxSize"}), 400, "desktop_invalid_action"},
		{&desktop.MissingError{Programs: []string{"Xvfb", "openbox"}}, 503, "desktop_dependencies_missing"},
		{desktop.ErrUnsupported, 501, "desktop_unsupported_platform"},
	} {
		start := later(t, s, startMain)
		<-f.starting
		f.start <- tc.err
		p := (<-start).problem(t, tc.status, tc.code)
		if tc.status == 503 && tc.code == "desktop_dependencies_missing" && (p["installCommand"] != "deskhand install desktop --yes" || len(p["missingDependencies"].([]any)) != 2) {
			t.Errorf("problem = %v", p)
		}
		st := s.get(t, "/v1/desktop/status").json(t)
		if last, _ := st["lastError"].(map[string]any); st["state"] != "failed" || last["code"] != tc.code || last["message"] != tc.err.Error() {
			t.Errorf("status after %v: %v", tc.err, st)
		}
		p = s.get(t, "/v1/desktop/screenshot").problem(t, 409, "desktop_runtime_inactive")
		if !strings.Contains(p["detail"].(string), tc.err.Error()) {
			t.Errorf("detail = %v, want the cause in it", p["detail"])
		}
	}
	s.do(t, stopMain).want(t, 200)
	if got := state(t, s); got != "inactive" {
		t.Errorf("state = %v, want inactive", got)
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := serve(t, Config{Start: f.make})
	start := later(t, s, startMain)
	<-f.starting
	f.start <- nil
	(<-start).want(t, 200)
	a := s.get(t, "/v1/desktop/mouse/position")
	a.problem(t, 500, "stream_error")
	if strings.Contains(string(a.body), "a fault") {
		t.Errorf("the panic leaks: %s", a.body)
	}
	s.get(t, "/v1/health").want(t, 200)
	go func() { <-f.closing; f.close <- nil }()
	s.do(t, stopMain).want(t, 200)
}

func TestCloseEndsWhatStarts(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := newServer(t, Config{Start: f.make})
	var wg sync.WaitGroup
	errs := make(chan error, 1)
	wg.Go(func() {
		_, err := s.StartDesktop(t.Context())
		errs <- err
	})
	<-f.starting
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	var p *rest.Problem
	if err := <-errs; !errors.As(err, &p) || p.Code != "desktop_runtime_inactive" {
		t.Errorf("StartDesktop = %v", err)
	}
	if _, err := s.StartDesktop(t.Context()); !errors.As(err, &p) || p.Status != 503 {
		t.Errorf("StartDesktop after Close = %v", err)
	}
}

func TestMoreDesktops(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	dir := t.TempDir()
	s := serve(t, Config{Start: f.make, StateDir: dir, MaxDesktops: 3})
	created := later(t, s, call{method: "POST", path: "/v1/desktops", body: `{"id":"second","width":640,"height":480,"displayNum":120}`})
	cfg := <-f.starting
	if cfg.ID != "second" || cfg.StateDir != filepath.Join(dir, "desktops", "second") || cfg.Size.Width != 640 || cfg.Display != 120 {
		t.Errorf("config = %+v", cfg)
	}
	f.start <- nil
	a := (<-created).want(t, 201)
	if got := a.Header.Get("Location"); got != "/v1/desktops/second" {
		t.Errorf("Location = %q", got)
	}
	if got := a.json(t); got["id"] != "second" || got["state"] != "active" {
		t.Errorf("created = %v", got)
	}
	s.post(t, "/v1/desktops", `{"id":"second"}`).problem(t, 409, "conflict")
	if got := s.get(t, "/v1/desktops/second/status").want(t, 200).json(t)["state"]; got != "active" {
		t.Errorf("state of second = %v", got)
	}
	if got := state(t, s); got != "inactive" {
		t.Errorf("state of main = %v", got)
	}
	// One whose id the server chooses, and whose files it removes.
	created = later(t, s, call{method: "POST", path: "/v1/desktops"})
	cfg = <-f.starting
	if err := os.MkdirAll(cfg.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	f.start <- nil
	id := (<-created).want(t, 201).json(t)["id"].(string)
	refusal := s.post(t, "/v1/desktops", `{}`).problem(t, 409, "conflict")
	if text := fmt.Sprint(refusal); !strings.Contains(text, "this server allows 3") || !strings.Contains(text, "--max-desktops") {
		t.Errorf("the refusal does not name the limit and the flag: %v", refusal)
	}
	list := s.get(t, "/v1/desktops").want(t, 200).json(t)["desktops"].([]any)
	if len(list) != 3 || list[0].(map[string]any)["id"] != "main" {
		t.Errorf("desktops = %v", list)
	}
	for _, id := range []string{id, "second"} {
		go func() { <-f.closing; f.close <- nil }()
		s.do(t, call{method: "DELETE", path: "/v1/desktops/" + id}).want(t, 204)
		s.get(t, "/v1/desktops/"+id).problem(t, 404, "not_found")
	}
	if _, err := os.Stat(cfg.StateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of %s: %v, want none", id, err)
	}
	s.do(t, call{method: "DELETE", path: "/v1/desktops/main"}).want(t, 204)
	s.get(t, "/v1/desktops/main").want(t, 200)
}

// TestFailedCreateLeavesNothing: the id is free again.
func TestFailedCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFactory()
	f.end(t)
	s := serve(t, Config{Start: f.make})
	created := later(t, s, call{method: "POST", path: "/v1/desktops", body: `{"id":"x"}`})
	<-f.starting
	f.start <- errors.New("no")
	(<-created).problem(t, 503, "desktop_runtime_failed")
	s.get(t, "/v1/desktops/x/status").problem(t, 404, "not_found")
}

// TestQuiet: each request other than a health check restarts the quiet time.
func TestQuiet(t *testing.T) {
	t.Parallel()
	quiet := make(chan struct{}, 10)
	s := serve(t, Config{Quiet: func() { quiet <- struct{}{} }})
	s.rest.Quiet.Reset(time.Millisecond)
	<-quiet
	if s.rest.Quiet.Stop() {
		t.Error("the clock goes on without a request")
	}
	for _, probe := range []string{"/livez", "/readyz", "/v1/health"} {
		s.get(t, probe).want(t, 200)
		if s.rest.Quiet.Stop() {
			t.Errorf("%s winds the clock up", probe)
		}
	}
	s.get(t, mainPath+"/status").want(t, 200)
	if !s.rest.Quiet.Stop() {
		t.Error("a request does not wind the clock up")
	}
}
