package desktop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// Launch starts a program on the desktop, without a shell.
type Launch struct {
	App  string   // a name on PATH, or an absolute path
	Args []string // without the name
	Env  []string // added, as "NAME=value"
	Dir  string   // empty: the desktop's HOME
	Wait bool     // wait until its first window is mapped, it and its descendants exit, or 15 s are over

	// Ready waits for up to 60 s until the program can be used: a window other than a splash
	// screen has been drawn and does not change, and its program is idle. It includes Wait.
	Ready bool

	// Files become its file descriptors 3, 4, ... The caller closes its own copies.
	Files []*os.File
}

// App is a launched program.
type App struct {
	ProcessID string // "proc_7", as in the process list
	PID       int
	Window    WindowID // zero: none, or neither Launch.Wait nor Launch.Ready is set
	Exited    bool     // it exited before it showed a window
	ExitCode  int      // if Exited; -1: a signal ended it

	child *supervise.Child
}

// Done returns a channel that is closed when the program has ended. It is nil for the zero
// App.
func (a App) Done() <-chan struct{} {
	if a.child == nil {
		return nil
	}
	return a.child.Done()
}

// Output returns the end of what the program has written to standard output and standard
// error, at most 8 KiB.
func (a App) Output() string {
	if a.child == nil {
		return ""
	}
	return a.child.Tail()
}

// Stop ends the program and what it started, with SIGTERM, and with SIGKILL after 2 s or when
// ctx ends. It waits until all of these processes have ended, also if ctx has ended, and does
// not return the error of ctx. It returns an error that names the processes that are left 5 s
// after SIGKILL. For the zero App it does nothing.
func (a App) Stop(ctx context.Context) error {
	if a.child == nil {
		return nil
	}
	return a.child.Stop(ctx)
}

// openPatience is how long Open waits for a window or a failure. A program that runs
// already may show the target in a window that it has.
const openPatience = 2 * time.Second

// Launch starts a program on the desktop. The program, and what it starts, ends with the
// desktop. It returns ErrAppNotFound if there is no such program, and an *InvalidError if
// Dir is not a directory.
//
// Without Launch.Wait it returns when the program has started, or a *DeadlineError after
// 10 s. With Launch.Wait it then waits for up to 15 s, and with Launch.Ready for up to 60 s.
// The end of that time is no error: App.Window is zero if the program has shown no window. If
// the wait fails for another reason, such as the end of ctx, Launch returns the error and the
// App, which runs.
func (d *Desktop) Launch(ctx context.Context, l Launch) (App, error) {
	op := "launch " + l.App
	child, err := d.launch(ctx, op, l)
	if err != nil {
		return App{}, err
	}
	app := appOf(child)
	switch {
	case l.Ready:
		return d.awaitReady(ctx, op, child)
	case l.Wait:
		return d.await(ctx, op, launchLimit, child, nil)
	}
	return app, nil
}

// Bounds of the wait for a program that can be used.
const (
	readyLimit = 60 * time.Second
	// readyQuiet is how long the screen must not change.
	readyQuiet = time.Second
	// readySettle bounds one wait for that: some programs never stop drawing.
	readySettle = 3 * time.Second
	// readyBusy is how long programs may be at work while nothing changes: on a busy machine,
	// a window stays empty for seconds.
	readyBusy = 20 * time.Second
)

// awaitReady waits until a program has a window that stays, and has drawn it.
func (in *inputs) awaitReady(ctx context.Context, op string, child *supervise.Child) (app App, err error) {
	began := time.Now()
	for {
		left := time.Until(began.Add(readyLimit))
		if left <= 0 {
			return app, nil
		}
		app, err = in.await(ctx, op, left, child, func(s *session, id x11.Window) bool { return !s.windows.IsSplash(id) })
		if err != nil || app.Window == 0 {
			return app, err
		}
		stays, err := call(ctx, &in.lifecycle, op, 2*queryLimit+readySettle, func(ctx context.Context, s *session) (bool, error) {
			settled, err := in.settle(ctx, s, readyQuiet, min(readySettle, max(left, readyQuiet)))
			if err != nil || settled.working && time.Since(began) < readyBusy {
				return false, err
			}
			if err := s.input.Quiesce(ctx); err != nil {
				return false, err
			}
			_, err = s.windows.Get(x11.Window(app.Window))
			if errors.Is(err, x11.ErrNoWindow) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil || stays {
			return app, err // also if it never stops drawing
		}
	}
}

func appOf(child *supervise.Child) App {
	return App{ProcessID: child.ID(), PID: child.PID(), child: child}
}

func (in *inputs) launch(ctx context.Context, op string, l Launch) (*supervise.Child, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return act(ctx, in, op, inputLimit, &Action{Name: ActionLaunch, App: l.App}, nil, func(_ context.Context, s *session) (*supervise.Child, error) {
		return in.spawn(s, l)
	})
}

func (p *programs) spawn(s *session, l Launch) (*supervise.Child, error) {
	env, dir := supervise.Environ(s.env, l.Env...), cmp.Or(l.Dir, p.dirs.home)
	var path string
	err := p.user.Do(func() (err error) { // the answer must not tell what only root may know
		if path, err = supervise.LookPath(l.App, env); err != nil {
			return fmt.Errorf("%w: %w", ErrAppNotFound, err)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return &InvalidError{"Dir", fmt.Sprintf("%q is not a directory", dir)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.apps.Start(supervise.Spec{Name: filepath.Base(path), Path: path, Args: p.browserArgs(path, l.Args), Env: env, Dir: dir, Credential: p.user.Credential, ExtraFiles: l.Files})
}

// await waits until a program or one of its descendants has shown its first window and the
// window manager has decided whether to give it the focus, until all of these programs have
// ended, or until limit has passed. Other actors may send input meanwhile.
// wanted, unless nil, says which windows count.
func (in *inputs) await(ctx context.Context, op string, limit time.Duration, child *supervise.Child, wanted func(*session, x11.Window) bool) (App, error) {
	started, owned := appOf(child), ownedBy(child)
	app, err := call(ctx, &in.lifecycle, op, limit+queryLimit, func(ctx context.Context, s *session) (App, error) {
		app := started
		waiting, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		go func() {
			awaitFamily(waiting, child)
			cancel()
		}()
		info, err := s.windows.WaitForWindow(waiting, func(w x11.WindowInfo) bool { return owned(w) && (wanted == nil || wanted(s, w.ID)) })
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
// such program, and ErrUnsupported if xdg-open is not installed. The end of ctx during the
// wait is an error, and does not end xdg-open.
func (d *Desktop) Open(ctx context.Context, target string) (App, error) {
	if err := ValidateTarget(target); err != nil {
		return App{}, err
	}
	child, err := d.launch(ctx, "open", Launch{App: "xdg-open", Args: []string{target}})
	if errors.Is(err, ErrAppNotFound) {
		return App{}, fmt.Errorf("open: xdg-open is not installed: %w", ErrUnsupported)
	}
	if err != nil {
		return App{}, err
	}
	app, err := d.await(ctx, "open", openPatience, child, nil)
	if err != nil {
		return app, err
	}
	if app.Exited && app.ExitCode != 0 {
		return app, &InvalidError{"target", fmt.Sprintf("cannot be opened: xdg-open ended with status %d%s", app.ExitCode, tail(child))}
	}
	return app, nil
}
