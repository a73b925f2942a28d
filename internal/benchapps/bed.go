package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
)

// programs has the files that each round begins with.
//
//go:embed programs
var programs embed.FS

// bed is a server with a desktop.
type bed struct {
	run      *benchkit.Run
	server   *sdktest.Server
	display  []string // environment for xdotool
	pictures string   // directory for pictures of failed rounds; empty: none
}

func newBed(ctx context.Context, run *benchkit.Run, pictures string) (*bed, error) {
	home := filepath.Join(run.Dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	if pictures != "" {
		if err := os.MkdirAll(pictures, 0o700); err != nil {
			return nil, err
		}
	}
	b := &bed{run: run, pictures: pictures}
	var err error
	if b.server, err = sdktest.Start(ctx, sdktest.Config{Binary: run.Binary, Home: home}); err != nil {
		return nil, err
	}
	if err := b.call(ctx, http.MethodPost, "/start", map[string]any{"width": 1280, "height": 800}, nil); err != nil {
		return nil, errors.Join(err, b.close())
	}
	var info struct {
		Display   string `json:"display"`
		Authority string `json:"xauthority"`
	}
	if err := b.call(ctx, http.MethodGet, "/display/info", nil, &info); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.display = append(os.Environ(), "DISPLAY="+info.Display, "XAUTHORITY="+info.Authority)
	return b, nil
}

func (b *bed) close() error { return b.server.Close() }

// call calls a route of the desktop.
func (b *bed) call(ctx context.Context, method, path string, body, answer any) error {
	req, err := b.server.Request(ctx, method, "/v1/desktop"+path, body)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := benchkit.Do(http.DefaultClient, req, &out); err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), answer)
}

// round is one round of a task.
type round struct {
	*bed
	ctx context.Context //nolint:containedctx // the steps of a task share it
	dir string          // with the files of programs
	pid int             // of the application
}

// start starts the application, with a HOME of its own, and waits until its window has
// the focus and nothing changes for a second.
func (r *round) start(t task) error {
	files, err := fs.Sub(programs, "programs")
	if err != nil {
		return err
	}
	if err := os.CopyFS(r.dir, files); err != nil {
		return err
	}
	home := filepath.Join(r.dir, "home")
	args := append(strings.Fields(t.app.command), strings.Fields(t.args)...)
	env := []string{"-c", `exec env "$@" > ` + r.dir + "/stdout", "sh", "HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_STATE_HOME=" + home, "NO_AT_BRIDGE=1"}
	for _, arg := range args {
		env = append(env, r.expand(arg))
	}
	var launched struct{ PID int }
	if err := errors.Join(os.Mkdir(home, 0o700), r.call(r.ctx, http.MethodPost, "/launch", map[string]any{"app": "sh", "args": env, "ready": true}, &launched)); err != nil {
		return err
	}
	r.pid = launched.PID
	match := regexp.MustCompile(t.app.window)
	for deadline := time.Now().Add(startLimit); !match.MatchString(r.focused().Title); {
		if err := benchkit.Pause(r.ctx, 30*time.Millisecond); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no window %s, but %s", t.app.window, r.titles())
		}
	}
	return r.screenshot(io.Discard, "?scale=0.1&settleMs=1000&timeoutMs=8000")
}

// expand puts the round's directory into a text.
func (r *round) expand(text string) string { return strings.ReplaceAll(text, "DIR", r.dir) }

func (r *round) screenshot(w io.Writer, query string) error {
	req, err := r.server.Request(r.ctx, http.MethodGet, "/v1/desktop/screenshot"+query, nil)
	if err != nil {
		return err
	}
	return benchkit.Do(http.DefaultClient, req, w)
}

// picture writes a picture of the screen, if pictures are kept.
func (r *round) picture(name string) error {
	if r.pictures == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(r.pictures, regexp.MustCompile(`\W+`).ReplaceAllString(name, "-")+".png"))
	if err != nil {
		return err
	}
	return errors.Join(r.screenshot(f, ""), f.Close())
}

// end ends the application, and waits until no window is left.
func (r *round) end() {
	_ = r.call(r.ctx, http.MethodPost, "/input/release", nil, nil)
	for range 200 {
		_ = syscall.Kill(-r.pid, syscall.SIGKILL) // the launched programs have groups of their own
		if len(r.windows()) == 0 || benchkit.Pause(r.ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// window is a window as the server lists it.
type window struct {
	Title    string
	X, Y     int
	IsActive bool
}

func (r *round) windows() []window {
	var list struct{ Windows []window }
	if r.call(r.ctx, http.MethodGet, "/windows", nil, &list) != nil {
		return nil
	}
	return list.Windows
}

// focused returns the window that has the focus.
func (r *round) focused() window {
	for _, w := range r.windows() {
		if w.IsActive {
			return w
		}
	}
	return window{}
}

// titles returns the titles of all windows, sorted by age.
func (r *round) titles() string {
	var all []string
	for _, w := range r.windows() {
		all = append(all, w.Title)
	}
	return strings.Join(all, "|")
}

func (r *round) read(name string) string {
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}
