package sdktest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/deskhand/deskhand/internal/supervise"
)

//go:embed sdk/package.json sdk/package-lock.json
var manifest embed.FS

// Install returns a node_modules directory with the SDK: see [installFrom].
func Install(ctx context.Context) (modules string, err error) {
	return installFrom(ctx, manifest, "sdk")
}

// installFrom returns a node_modules directory with the packages of the lock file
// in a folder.
// The first call for a lock file takes them from npm into a directory of the
// user's cache; that directory appears complete or not at all, so that several
// programs may call this at once.
func installFrom(ctx context.Context, manifest fs.FS, folder string) (modules string, err error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("install npm packages: %w", err)
	}
	sum := sha256.New()
	files := make(map[string][]byte)
	for _, name := range []string{"package.json", "package-lock.json"} {
		files[name], err = fs.ReadFile(manifest, folder+"/"+name)
		if err != nil {
			return "", err
		}
		sum.Write(files[name])
	}
	final := filepath.Join(base, "deskhand", "npm-"+hex.EncodeToString(sum.Sum(nil))[:16])
	modules = filepath.Join(final, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := install(ctx, final, files); err != nil {
		return "", fmt.Errorf("install npm packages: %w", err)
	}
	return modules, nil
}

func install(ctx context.Context, final string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(final), "npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	// The lock file has the packages' checksums. Of the two install scripts
	// among them, one only does what makeExecutable does, and esbuild's only
	// makes its start quicker.
	err = Run(ctx, supervise.Spec{
		Path: "npm", Dir: dir,
		Args: []string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"},
	})
	if err != nil {
		return err
	}
	if err := makeExecutable(filepath.Join(dir, "node_modules")); err != nil {
		return err
	}
	// Somebody else may have been faster; theirs is as good.
	if err := os.Rename(dir, final); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func makeExecutable(modules string) error {
	path, err := ReferenceBinary(modules)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is not among the packages
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

// Run runs a program to its end. The error has the end of its output.
func Run(ctx context.Context, spec supervise.Spec) error {
	g, err := supervise.NewGroup(supervise.GroupConfig{Owner: "system"})
	if err != nil {
		return err
	}
	defer g.Close()
	c, err := g.Start(spec)
	if err != nil {
		return err
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", c.Name(), ctx.Err())
	}
	if e := c.Exit(); e.Code != 0 {
		return fmt.Errorf("%s: %v: %s", c.Name(), e, c.Tail())
	}
	return nil
}

// ReferenceBinary returns the reference server's path in a node_modules
// directory from [Install].
func ReferenceBinary(modules string) (string, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	path := filepath.Join(modules, "@sandbox-agent", "cli-linux-"+arch, "bin", "sandbox-agent")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("reference server: %w", err)
	}
	return path, nil
}
