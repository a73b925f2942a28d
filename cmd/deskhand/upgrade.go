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

const aboutUpgrade = `Replaces this program with the newest release, or another one, after its SHA-256
sum was checked. A running server stays what it is until it is restarted.

Releases come from $DESKHAND_BASE_URL; from GitHub, unless given. A program that
belongs to a package of the system or of npm is left to that.`

func (p program) upgrade(ctx context.Context, args []string) error {
	flags := p.flags("upgrade", aboutUpgrade)
	check := flags.Bool("check", false, "only say whether there is a newer version")
	wanted := flags.String("version", "", "install this `version`, as v1.2.3; the newest, unless given")
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("upgrade takes no argument, so not %q", flags.Arg(0))
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
		return usagef("--version must be a version as v1.2.3, not %q", *wanted)
	}
	if version == versionText() {
		_, err := fmt.Fprintf(p.stdout, "This is deskhand %s already.\n", version)
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
	_, err = fmt.Fprintf(p.stdout, "%s is deskhand %s now. It was %s, and so are servers that run until they are restarted.\n", path, version, versionText())
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
		exit, err := runCommand(ctx, supervise.Spec{
			Path: manager.query[0], Args: append(manager.query[1:], path), Stdout: io.Discard, Stderr: io.Discard,
			Env: supervise.Environ(os.Environ(), ownVariables...),
		})
		switch {
		case errors.Is(err, supervise.ErrNotFound):
		case err != nil:
			return "", fmt.Errorf("ask %s who owns %s: %w", manager.query[0], path, err)
		case exit.Code == 0:
			return "", fmt.Errorf("%s belongs to a package of this system; upgrade that, as with '%s'", path, manager.remedy)
		}
	}
	return path, nil
}

// replaceProgram puts the program of a release in the place of the file at path.
// That file is the old one or the new one at any time, and keeps its mode and owner.
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

// tryProgram wants a program to run here and to say that it is a version of deskhand.
func tryProgram(ctx context.Context, path, version string) error {
	var out strings.Builder
	exit, err := runCommand(ctx, supervise.Spec{
		Path: path, Args: []string{"version"}, Stdout: &out, Stderr: &out, Env: supervise.Environ(os.Environ(), ownVariables...),
	})
	if err != nil {
		return fmt.Errorf("the program of release %s does not run here, so nothing was replaced: %w", version, err)
	}
	if want := "deskhand " + version; exit.Code != 0 || strings.TrimSpace(out.String()) != want {
		return fmt.Errorf("the program of release %s does not run here, so nothing was replaced: it printed %q (%v), not %q", version, out.String(), exit, want)
	}
	return nil
}
