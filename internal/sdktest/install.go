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

// Install returns a node_modules directory with the SDK. The first call for a lock
// file takes the packages from npm into a directory of the user's cache. Programs may
// call it concurrently.
func Install(ctx context.Context) (modules string, err error) {
	return installFrom(ctx, manifest, "sdk")
}

// installFrom is Install for the lock file in a folder. The directory appears
// complete or not at all.
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
	// The lock file has the packages' checksums. Their two install scripts are not
	// needed: one does the same as makeExecutable, and esbuild's makes its start faster.
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
	// Another program may have been faster; its directory is as good.
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

// Run runs a program to its end. It returns an error with the end of the output if
// the program fails.
func Run(ctx context.Context, spec supervise.Spec) error {
	c, err := supervise.Run(ctx, spec)
	if err != nil {
		return fmt.Errorf("%s: %w", spec.Path, err)
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
