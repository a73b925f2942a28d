package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutUpgrade = `Replaces this program with the newest release, or with --version. The SHA-256 sum
of the release is checked first. A running server keeps its version until it restarts.

Releases come from $DESKHAND_BASE_URL (default: GitHub). A program that belongs to
a package of the system or of npm must be upgraded with that package manager.`

func (p program) upgrade(ctx context.Context, _ accessFlags, args []string) error {
	flags := p.flags("upgrade", aboutUpgrade)
	check := flags.Bool("check", false, "only report whether there is a newer version")
	wanted := flags.String("version", "", "install this `version`, such as v1.2.3 (default: the newest)")
	p.ignoreAccess(flags)
	if err := parseNone(flags, args); err != nil {
		return err
	}
	r, err := newReleases(variable("BASE_URL"))
	if err != nil {
		return err
	}
	defer r.client.CloseIdleConnections()
	version := "v" + strings.TrimPrefix(*wanted, "v")
	if *wanted == "" {
		if version, err = r.newest(ctx); err != nil {
			return err
		}
	} else if !isVersion(version) {
		return usagef("--version must be a version such as v1.2.3, not %q", *wanted)
	}
	if version == versionText() {
		_, err := fmt.Fprintf(p.stdout, "This is already deskhand %s.\n", version)
		return err
	}
	if *check {
		_, err := fmt.Fprintf(p.stdout, "deskhand %s is available, and this is %s. '%s upgrade' installs it.\n", version, versionText(), p.name)
		return err
	}
	path, err := ownPath(ctx)
	if err != nil {
		return err
	}
	if err := replaceProgram(ctx, r, version, path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is now deskhand %s instead of %s. Running servers keep their version until they restart.\n", path, version, versionText())
	return err
}

// ownPath returns the file of this program. It fails if a package manager owns the file.
func ownPath(ctx context.Context) (string, error) {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if strings.Contains(path, "/node_modules/") {
		return "", fmt.Errorf("%s belongs to an npm package; upgrade it with npm", path)
	}
	for _, manager := range []struct {
		query  []string
		remedy string
	}{
		{[]string{"dpkg-query", "-S"}, "apt-get install ./deskhand-linux-ARCH.deb"},
		{[]string{"rpm", "-qf"}, "dnf install ./deskhand-linux-ARCH.rpm"},
	} {
		child, err := supervise.Run(ctx, supervise.Spec{
			Path: manager.query[0], Args: append(manager.query[1:], path), Stdout: io.Discard, Stderr: io.Discard,
		})
		switch {
		case errors.Is(err, supervise.ErrNotFound):
		case err != nil:
			return "", fmt.Errorf("ask %s for the owner of %s: %w", manager.query[0], path, err)
		case child.Exit().Code == 0:
			return "", fmt.Errorf("%s belongs to a package of this system; upgrade that package, for example with '%s'", path, manager.remedy)
		}
	}
	return path, nil
}

// replaceProgram replaces the file at path with the program of a release,
// atomically. The file keeps its mode and owner.
func replaceProgram(ctx context.Context, r releases, version, path string) (err error) {
	old, err := os.Stat(path)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".deskhand-upgrade-*")
	if err != nil {
		return notWritable(path, err)
	}
	defer func() {
		_ = file.Close()
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := r.download(ctx, version, file); err != nil {
		return err
	}
	owner := old.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 {
		if err := file.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if err := errors.Join(file.Chmod(old.Mode()), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := tryProgram(ctx, file.Name(), version); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// notWritable explains why a program cannot be replaced.
func notWritable(path string, err error) error {
	const elsewhere = "install deskhand elsewhere, with install.sh --prefix ~/.local"
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system; %s", path, elsewhere)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not replace %s; run the command as root, or %s", path, elsewhere)
	}
	return fmt.Errorf("replace %s: %w", path, err)
}

// tryProgram returns an error unless the program runs here and reports the version.
func tryProgram(ctx context.Context, path, version string) error {
	var out strings.Builder
	child, err := supervise.Run(ctx, supervise.Spec{
		Path: path, Args: []string{"version"}, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		return fmt.Errorf("the program of release %s does not run here, so nothing was replaced: %w", version, err)
	}
	if want := "deskhand " + version; child.Exit().Code != 0 || strings.TrimSpace(out.String()) != want {
		return fmt.Errorf("the program of release %s does not run here, so nothing was replaced: it printed %q (%v), not %q", version, out.String(), child.Exit(), want)
	}
	return nil
}
