package batch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// fileProgram is a program that opens a file dialog.
type fileProgram struct {
	name  string
	args  []string
	open  string // keys that open the dialog; empty: it opens with the program
	saves bool
	text  string // to type before that
}

// run starts the program in a directory.
func (p fileProgram) run(t *testing.T, d *desktop.Desktop, dir string) desktop.App {
	t.Helper()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "GTK_USE_PORTAL=0"}
	app, err := d.Launch(t.Context(), desktop.Launch{App: p.name, Args: p.args, Dir: dir, Ready: true, Env: env})
	if err != nil || app.Exited {
		t.Fatalf("%+v, %v", app, err)
	}
	return app
}

// titles returns the titles of all windows.
func titles(t *testing.T, d *desktop.Desktop) string {
	t.Helper()
	list, err := d.Windows(t.Context(), desktop.WindowFilter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, w := range list {
		all += w.Title + "\n"
	}
	return all
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // polls to a deadline
	}
}

// TestChooseFile opens a file and saves to one by the dialogs of several toolkits. The name of
// each is also the beginning of another.
func TestChooseFile(t *testing.T) {
	t.Parallel()
	swing, err := filepath.Abs("../../internal/benchapps/programs/Board.java")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]fileProgram{
		"GTK 3":         {name: "zenity", args: []string{"--file-selection"}},
		"GTK 3 save":    {name: "zenity", args: []string{"--file-selection", "--save"}, saves: true},
		"mousepad save": {name: "mousepad", args: []string{"--disable-server"}, open: "ctrl+s", saves: true, text: "new"},
		"GTK 4":         {name: "gnome-text-editor", args: []string{"--standalone"}, open: "ctrl+o"},
		"GTK 4 save":    {name: "gnome-text-editor", args: []string{"--standalone"}, open: "ctrl+shift+s", saves: true, text: "new"},
		"Qt":            {name: "featherpad", args: []string{"-s"}, open: "ctrl+o"},
		"Qt save":       {name: "featherpad", args: []string{"-s"}, open: "ctrl+s", saves: true, text: "new"},
		"Swing":         {name: "java", args: []string{swing, "out"}, open: "ctrl+o"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(p.name); err != nil && p.name != "zenity" && p.name != "featherpad" {
				t.Skip(err) // too large for the tests
			}
			d := start(t, p.name)
			dir := t.TempDir()
			for _, name := range []string{"a file.txt", "a file.txt.old"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			app := p.run(t, d, dir)
			if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte("mine")}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "a file.txt")
			if p.saves {
				path = filepath.Join(dir, "a fil")
			}
			var actions []batch.Action
			if p.text != "" {
				actions = append(actions, batch.Type{Text: p.text})
			}
			if p.open != "" {
				actions = append(actions, batch.Press{Keys: p.open})
			}
			r := do(t, d, batch.Batch{Actions: append(actions, batch.ChooseFile{Path: path}), Observe: batch.Observe{Clipboard: true}})
			if r.Stopped != nil || r.Results[len(actions)].Window == 0 || *r.Clipboard != "mine" {
				t.Fatalf("%+v, clipboard %q", r, *r.Clipboard)
			}
			eventually(t, "the file is chosen", func() bool {
				switch {
				case p.name == "zenity":
					return strings.Contains(app.Output(), path+"\n")
				case p.name == "java":
					out, _ := os.ReadFile(filepath.Join(dir, "out"))
					return string(out) == path
				case p.saves:
					out, _ := os.ReadFile(path)
					return strings.TrimSpace(string(out)) == "new"
				}
				return strings.Contains(titles(t, d), filepath.Base(path))
			})
		})
	}
}

// TestChooseFileFails: the program asks before it replaces a file, no dialog is open, or the
// dialog takes no path.
func TestChooseFileFails(t *testing.T) {
	t.Parallel()
	d := start(t, "zenity", "featherpad")
	fails := func(want string, a batch.Action) {
		t.Helper()
		done, err := batch.Act(t.Context(), batch.Target{Desktop: d}, a)
		var failed *batch.FileDialogError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) || failed.Dialog != done.Window {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "there")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails("no dialog has the focus", batch.ChooseFile{Path: path, Timeout: time.Millisecond})
	for _, p := range []fileProgram{
		{name: "zenity", args: []string{"--file-selection", "--save", "--confirm-overwrite"}},
		{name: "featherpad", args: []string{"-s"}, open: "ctrl+s", text: "new"},
	} {
		app := p.run(t, d, dir)
		if p.open != "" {
			if err := errors.Join(d.Type(t.Context(), desktop.Type{Text: p.text}), d.Press(t.Context(), desktop.Press{Keys: p.open})); err != nil {
				t.Fatal(err)
			}
		}
		fails("is still open, and window", batch.ChooseFile{Path: path})
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	app := fileProgram{name: "zenity", args: []string{"--question", "--text=Sure?"}}.run(t, d, dir)
	fails("did not take the path", batch.ChooseFile{Path: path})
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
