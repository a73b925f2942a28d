package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// openPatience is how long Open waits for a window or a failure. A program that runs
// already may show the target in a window that it has.
const openPatience = 2 * time.Second

// Launch starts a program on the desktop. The program, and what it starts, ends with the
// desktop. It returns ErrAppNotFound if there is no such program, and an *InvalidError if
// Dir is not a directory.
//
// Without Launch.Wait it returns when the program has started, or a *DeadlineError after
// 10 s. With Launch.Wait it then waits for up to 15 s. A program that shows no window in
// that time is not an error: App.Window is zero. If only that wait fails, Launch returns
// the App, which runs, and the error.
func (d *Desktop) Launch(ctx context.Context, l Launch) (App, error) {
	op := "launch " + l.App
	child, err := d.launch(ctx, op, l)
	if err != nil {
		return App{}, err
	}
	app := App{ProcessID: child.ID(), PID: child.PID()}
	if !l.Wait {
		return app, nil
	}
	return d.await(ctx, op, launchLimit, child)
}

func (in *inputs) launch(ctx context.Context, op string, l Launch) (*supervise.Child, error) {
	if err := checkLaunch(l); err != nil {
		return nil, err
	}
	return act(ctx, in, op, inputLimit, &Action{Name: ActionLaunch, App: l.App}, nil, func(_ context.Context, s *session) (*supervise.Child, error) {
		return in.spawn(s, l)
	})
}

func checkLaunch(l Launch) error {
	if l.App == "" {
		return fmt.Errorf("launch: no name: %w", ErrAppNotFound)
	}
	for field, list := range map[string][]string{"App": {l.App}, "Args": l.Args, "Env": l.Env, "Dir": {l.Dir}} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return &InvalidError{field, "must not contain a NUL character"}
			}
		}
	}
	for _, kv := range l.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return &InvalidError{"Env", fmt.Sprintf("%q is not NAME=value", kv)}
		}
	}
	return nil
}

func (p *programs) spawn(s *session, l Launch) (*supervise.Child, error) {
	env := supervise.Environ(s.env, l.Env...)
	path, err := supervise.LookPath(l.App, env)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAppNotFound, err)
	}
	dir := l.Dir
	if dir == "" {
		dir = p.dirs.home
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, &InvalidError{"Dir", fmt.Sprintf("%q is not a directory", dir)}
	}
	return p.apps.Start(supervise.Spec{Name: filepath.Base(path), Path: path, Args: p.browserArgs(path, l.Args), Env: env, Dir: dir, Credential: p.user.Credential})
}

// await waits until a program or one of its descendants has shown its first window and the
// window manager has decided whether to give it the focus, until all of these programs have
// ended, or until limit has passed. Other actors may send input meanwhile.
func (in *inputs) await(ctx context.Context, op string, limit time.Duration, child *supervise.Child) (App, error) {
	started := App{ProcessID: child.ID(), PID: child.PID()}
	app, err := call(ctx, &in.lifecycle, op, limit+queryLimit, func(ctx context.Context, s *session) (App, error) {
		app := started
		waiting, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		go func() {
			awaitFamily(waiting, child)
			cancel()
		}()
		info, err := s.windows.WaitForWindow(waiting, ownedBy(child))
		switch {
		case err == nil:
			app.Window = WindowID(info.ID)
			s.input.Shown(info.ID)
			return app, s.windows.AwaitFocus(ctx, info.ID)
		case waiting.Err() == nil, errors.Is(err, x11.ErrConnClosed):
			return app, err
		case ctx.Err() != nil:
			return app, ctx.Err()
		}
		select {
		case <-child.Done():
			app.Exited, app.ExitCode = true, child.Exit().Code
		default: // it runs without a window
		}
		return app, nil
	})
	if err != nil {
		return started, err
	}
	return app, nil
}

// familyPace is the interval between checks of the descendants of a program that has ended.
const familyPace = 100 * time.Millisecond

// awaitFamily waits until a child and its descendants have ended.
func awaitFamily(ctx context.Context, child *supervise.Child) {
	select {
	case <-child.Done():
	case <-ctx.Done():
		return
	}
	pace := time.NewTicker(familyPace)
	defer pace.Stop()
	for !extinct(child) {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// extinct reports whether all descendants of a child that has ended have ended. It checks
// twice, because one check can miss a process that forks and ends meanwhile.
func extinct(child *supervise.Child) bool {
	for range 2 {
		if len(child.Family()) > 0 {
			return false
		}
	}
	return true
}

// ownedBy returns a function that reports whether a window belongs to a child or one of
// its descendants. The function checks each window once, because no process becomes a
// descendant later.
func ownedBy(child *supervise.Child) func(x11.WindowInfo) bool {
	foreign := make(map[x11.Window]bool)
	return func(w x11.WindowInfo) bool {
		if w.PID == 0 || foreign[w.ID] {
			return false
		}
		ours := w.PID == child.PID() || slices.Contains(child.Family(), w.PID)
		foreign[w.ID] = !ours
		return ours
	}
}

// Open opens a URL or a file with the program that the desktop's user has chosen for it. It
// waits for up to 2 s for a window or a failure, and returns the App of xdg-open. It
// returns an *InvalidError if xdg-open fails in that time, for example because there is no
// such program, and ErrUnsupported if xdg-open is not installed.
func (d *Desktop) Open(ctx context.Context, target string) (App, error) {
	switch {
	case strings.TrimSpace(target) == "":
		return App{}, &InvalidError{"target", "must be a URL or a path"}
	case strings.HasPrefix(target, "-"):
		return App{}, &InvalidError{"target", "must not begin with a dash; write ./ before a file's name"}
	case strings.ContainsRune(target, 0):
		return App{}, &InvalidError{"target", "must not contain a NUL character"}
	}
	child, err := d.launch(ctx, "open", Launch{App: "xdg-open", Args: []string{target}})
	if errors.Is(err, ErrAppNotFound) {
		return App{}, fmt.Errorf("open: xdg-open is not installed: %w", ErrUnsupported)
	}
	if err != nil {
		return App{}, err
	}
	app, err := d.await(ctx, "open", openPatience, child)
	if err != nil {
		return app, err
	}
	if app.Exited && app.ExitCode != 0 {
		return app, &InvalidError{"target", fmt.Sprintf("cannot be opened: xdg-open ended with status %d%s", app.ExitCode, tail(child))}
	}
	return app, nil
}
