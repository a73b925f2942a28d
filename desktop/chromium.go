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

// browsers are the names of Chromium and Chrome.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// smallShm is the size of /dev/shm below which Chromium's tabs crash.
const smallShm = 512 << 20

// prepareBrowsers adds Config.BrowserArgs to the arguments of Chromium,
// --password-store=basic, because a keyring would ask for a password before the first window,
// and --no-sandbox where its sandbox cannot work: for root and in containers without user
// namespaces. It writes wrappers that add them into a folder of the desktop, which comes before
// PATH and before the folders of desktop entries. If that folder is mounted noexec, Launch and
// the desktop entries add them instead.
func (p *programs) prepareBrowsers(ctx context.Context) error {
	var found []string
	for _, name := range browsers {
		if path, err := supervise.LookPath(name, os.Environ()); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 || p.attached != "" {
		return nil
	}
	flags := slices.Clone(p.cfg.BrowserArgs)
	if p.noSandbox = !p.sandboxWorks(ctx); p.noSandbox {
		flags = append(flags, "--no-sandbox")
		var fs unix.Statfs_t
		if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Blocks*uint64(fs.Bsize) < smallShm {
			flags = append(flags, "--disable-dev-shm-usage")
		}
	}
	flags = append(flags, "--password-store=basic")
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
			script := "#!/bin/sh\n# Adds the desktop's arguments, and --no-sandbox for root and without user namespaces.\nexec " +
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

// execQuote quotes a program's path for a desktop entry (Desktop Entry Specification,
// "The Exec key") if it must: xdg-open does not understand quotes.
func execQuote(path string) string {
	if !strings.ContainsAny(path, " \t\n\"'\\><~|&;$*?#()`") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\\\`, `"`, `\\"`, "`", "\\\\`", "$", `\\$`).Replace(path) + `"`
}

// sandboxWorks reports whether a user can make namespaces of users, processes and
// networks, as Chromium's sandbox does.
func (p *programs) sandboxWorks(ctx context.Context) bool {
	if p.user.Root() {
		return false
	}
	child, err := p.group.Start(supervise.Spec{Name: "sandbox-check", Path: "unshare", Args: []string{"-U", "-p", "-n", "-f", "true"}, Env: supervise.Inherit(true), Credential: p.user.Credential})
	if err != nil {
		return true // it is unknown, so the browser stays unchanged
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

// browserArgs returns a program's arguments. It adds the flags of a browser without a
// wrapper.
func (p *programs) browserArgs(path string, args []string) []string {
	if p.chromium == nil || !slices.Contains(browsers, filepath.Base(path)) {
		return args
	}
	return slices.Concat(p.chromium, args)
}

// shimEnv returns the variables by which programs find the wrappers first.
func (p *programs) shimEnv(path, data string) []string {
	if p.dirs.shims == "" {
		return nil
	}
	if data == "" {
		data = "/usr/local/share:/usr/share" // XDG Base Directory specification
	}
	env := []string{
		"PATH=" + filepath.Join(p.dirs.shims, "bin") + ":" + path,
		"XDG_DATA_DIRS=" + filepath.Join(p.dirs.shims, "share") + ":" + data,
	}
	if p.noSandbox {
		env = append(env, "ELECTRON_DISABLE_SANDBOX=1")
	}
	return env
}
