package desktop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// browsers are the names under which Chromium and its kin are started.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// smallShm is the size of /dev/shm below which Chromium's tabs crash.
const smallShm = 512 << 20

// prepareBrowsers makes Chromium start where its own sandbox cannot: for root,
// and in containers that forbid user namespaces. There it refuses to run
// without --no-sandbox, which nobody thinks of typing into a menu or a
// terminal. Wrappers that add the flag go into a folder of the desktop's, put
// before PATH and before the folders of desktop entries; where the sandbox
// works nothing is done. Where the folder is mounted noexec, Launch and the desktop
// entries add the flag, and programs of the desktop have to do so.
func (p *programs) prepareBrowsers(ctx context.Context) error {
	var found []string
	for _, name := range browsers {
		if path, err := supervise.LookPath(name, os.Environ()); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 || p.attached != "" || p.sandboxWorks(ctx) {
		return nil
	}
	flags := []string{"--no-sandbox"}
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Blocks*uint64(fs.Bsize) < smallShm {
		flags = append(flags, "--disable-dev-shm-usage")
	}
	shims := filepath.Join(p.dirs.shared, "shims")
	bin, entries := filepath.Join(shims, "bin"), filepath.Join(shims, "share", "applications")
	for _, dir := range []string{bin, entries} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("browser wrappers: %w", err)
		}
	}
	if supervise.NoExec(bin) {
		p.chromium = flags
		p.log.Warn("programs in the desktop's directory cannot be executed, so a browser that is typed into a terminal does not start; mount it without noexec (docker run --tmpfs DIR:exec), or choose another state directory",
			"directory", p.dirs.shared)
	}
	for _, path := range found {
		name := filepath.Base(path)
		command := execQuote(path) + " " + strings.Join(flags, " ")
		if p.chromium == nil {
			wrapper := filepath.Join(bin, name)
			command = execQuote(wrapper)
			script := "#!/bin/sh\n# The sandbox of Chromium cannot work here: root, or no user namespaces.\nexec " +
				shellQuote(path) + " " + strings.Join(flags, " ") + " \"$@\"\n"
			if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
				return fmt.Errorf("browser wrappers: %w", err)
			}
		}
		// The packaged entry names the program by its absolute path.
		entry, err := os.ReadFile("/usr/share/applications/" + name + ".desktop")
		if err != nil {
			continue
		}
		entry = bytes.ReplaceAll(entry, []byte("Exec="+path), []byte("Exec="+command))
		if err := os.WriteFile(filepath.Join(entries, name+".desktop"), entry, 0o644); err != nil {
			return fmt.Errorf("browser wrappers: %w", err)
		}
	}
	if err := makeReadable(shims); err != nil {
		return fmt.Errorf("browser wrappers: %w", err)
	}
	p.dirs.shims = shims
	return nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// execQuote writes a program's path as desktop entries want it ("The Exec key",
// Desktop Entry Specification). xdg-open understands no quotes, so they are left
// out where they can be.
func execQuote(path string) string {
	if !strings.ContainsAny(path, " \t\n\"'\\><~|&;$*?#()`") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\\\`, `"`, `\\"`, "`", "\\\\`", "$", `\\$`).Replace(path) + `"`
}

// sandboxWorks tries what Chromium's sandbox needs: a user namespace with its
// own processes and network.
func (p *programs) sandboxWorks(ctx context.Context) bool {
	if p.user.Root() {
		return false
	}
	child, err := p.group.Start(supervise.Spec{Name: "sandbox-check", Path: "unshare", Args: []string{"-U", "-p", "-n", "-f", "true"}, Credential: p.user.Credential})
	if err != nil {
		return true // cannot tell: leave the browser as it is
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case <-child.Done():
		return child.Exit().Code == 0
	case <-ctx.Done():
		return true
	}
}

// browserArgs returns a program's arguments, with the flags that a browser needs
// where there is no wrapper.
func (p *programs) browserArgs(path string, args []string) []string {
	if p.chromium == nil || !slices.Contains(browsers, filepath.Base(path)) {
		return args
	}
	return slices.Concat(p.chromium, args)
}

// shimEnv puts the wrappers first.
func (p *programs) shimEnv(path, data string) []string {
	if p.dirs.shims == "" {
		return nil
	}
	if data == "" {
		data = "/usr/local/share:/usr/share" // XDG Base Directory specification
	}
	return []string{
		"PATH=" + filepath.Join(p.dirs.shims, "bin") + ":" + path,
		"XDG_DATA_DIRS=" + filepath.Join(p.dirs.shims, "share") + ":" + data,
		"ELECTRON_DISABLE_SANDBOX=1",
	}
}
