package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// openPatience is how long Open watches for the handler to fail.
const openPatience = 2 * time.Second

// Launch starts a program on the desktop. It ends with the desktop, whatever
// it turns itself into.
func (d *Desktop) Launch(ctx context.Context, l Launch) (App, error) {
	child, err := d.launch(ctx, l)
	if err != nil {
		return App{}, err
	}
	app := App{ProcessID: child.ID(), PID: child.PID()}
	if !l.Wait {
		return app, nil
	}
	// Waiting is not input: others may act meanwhile.
	return call(ctx, d, "launch "+l.App, launchLimit+queryLimit, func(ctx context.Context, s *session) (App, error) {
		return app.await(ctx, s, child)
	})
}

func (d *Desktop) launch(ctx context.Context, l Launch) (*supervise.Child, error) {
	if err := checkLaunch(l); err != nil {
		return nil, err
	}
	return act(ctx, d, "launch "+l.App, inputLimit, &Action{Name: "launch", App: l.App}, func(_ context.Context, s *session) (*supervise.Child, error) {
		return d.spawn(s, l)
	})
}

func checkLaunch(l Launch) error {
	if l.App == "" {
		return fmt.Errorf("launch: no name: %w", ErrAppNotFound)
	}
	for field, list := range map[string][]string{"app": {l.App}, "args": l.Args, "env": l.Env, "dir": {l.Dir}} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return &InvalidError{field, "must not contain a NUL character"}
			}
		}
	}
	for _, kv := range l.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return &InvalidError{"env", fmt.Sprintf("%q is not NAME=value", kv)}
		}
	}
	return nil
}

func (d *Desktop) spawn(s *session, l Launch) (*supervise.Child, error) {
	env := supervise.Environ(s.env, l.Env...)
	path, err := supervise.LookPath(l.App, env)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAppNotFound, err)
	}
	dir := l.Dir
	if dir == "" {
		dir = d.dirs.home
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, &InvalidError{"dir", fmt.Sprintf("%q is not a directory", dir)}
	}
	return d.apps.Start(supervise.Spec{Name: filepath.Base(path), Path: path, Args: l.Args, Env: env, Dir: dir})
}

// await waits for the first window of a program or of one that it started, or
// for its end.
func (app App) await(ctx context.Context, s *session, child *supervise.Child) (App, error) {
	ctx, cancel := context.WithTimeout(ctx, launchLimit)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-child.Done():
			cancel()
		case <-over:
		}
	}()
	info, err := s.windows.WaitForWindow(ctx, func(w x11.WindowInfo) bool {
		return w.PID != 0 && descends(w.PID, app.PID)
	})
	switch {
	case err == nil:
		app.Window = WindowID(info.ID)
		return app, nil
	case errors.Is(err, x11.ErrConnClosed):
		return app, err
	}
	select {
	case <-child.Done():
		app.Exited, app.ExitCode = true, child.Exit().Code
	default: // it runs, without a window: that is an answer too
	}
	return app, nil
}

// descends says whether pid is root, or was started by it or by what it
// started. Orphans have lost that trace.
func descends(pid, root int) bool {
	for range 64 {
		if pid == root {
			return true
		}
		if pid <= 1 {
			return false
		}
		pid = parent(pid)
	}
	return false
}

// parent reads a process's parent from /proc (proc(5)).
func parent(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name is in parentheses and may hold anything; the fields follow.
	_, rest, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// Open opens a URL or a file with the program that the desktop's user has
// chosen for it. It fails when there is none.
func (d *Desktop) Open(ctx context.Context, target string) (App, error) {
	switch {
	case strings.TrimSpace(target) == "":
		return App{}, &InvalidError{"target", "must be a URL or a path"}
	case strings.HasPrefix(target, "-"):
		return App{}, &InvalidError{"target", "must not begin with a dash; write ./ before a file's name"}
	case strings.ContainsRune(target, 0):
		return App{}, &InvalidError{"target", "must not contain a NUL character"}
	}
	child, err := d.launch(ctx, Launch{App: "xdg-open", Args: []string{target}})
	if errors.Is(err, ErrAppNotFound) {
		return App{}, fmt.Errorf("open: xdg-open is not installed: %w", ErrUnsupported)
	}
	if err != nil {
		return App{}, err
	}
	app := App{ProcessID: child.ID(), PID: child.PID()}
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case <-child.Done():
		if code := child.Exit().Code; code != 0 {
			return app, &InvalidError{"target", fmt.Sprintf("cannot be opened: xdg-open ended with status %d%s", code, tail(child))}
		}
	case <-timer.C: // the handler runs in its place
	case <-ctx.Done():
	}
	return app, nil
}
