// Command weblibs fetches the third-party code of the web page from an npm registry.
//
// # Usage
//
//	go run ./internal/weblibs
//
// It reads httpapi/libs.lock, which has the SHA-512 of each package, and writes the files
// that the lock file names, and no others, into httpapi/ui/lib. Packages that it has
// fetched before are in .cache/weblibs. The program that go build makes without these files
// works, but its page shows terminals and Markdown as plain text.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// timeLimit bounds the whole run.
const timeLimit = 5 * time.Minute

// library is a package of the lock file.
type library struct {
	Package   string            `json:"package"`
	Version   string            `json:"version"`
	Integrity string            `json:"integrity"` // as npm writes it: sha512-, and the sum of the tarball in base64
	Files     map[string]string `json:"files"`     // paths in the package to names in the folder of the page
}

func main() {
	lock := flag.String("lock", "httpapi/libs.lock", "the lock `file`")
	into := flag.String("into", "httpapi/ui/lib", "the `folder` to write; files that the lock file does not name are removed")
	cache := flag.String("cache", ".cache/weblibs", "the `folder` of fetched packages")
	registry := flag.String("registry", "", "the `URL` of the npm registry; https://registry.npmjs.org if it is empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	err := run(ctx, *lock, *into, source{registry: *registry, cache: *cache})
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weblibs:", err)
		os.Exit(1)
	}
}

// run makes the folder contain the files of the lock file.
func run(ctx context.Context, lock, into string, from source) error {
	libraries, err := readLock(lock)
	if err != nil {
		return err
	}
	keep := []string{}
	for _, l := range libraries {
		tarball, err := from.tarball(ctx, l)
		if err != nil {
			return fmt.Errorf("%s %s: %w", l.Package, l.Version, err)
		}
		files, err := extract(tarball, l.Files)
		if err != nil {
			return fmt.Errorf("%s %s: %w", l.Package, l.Version, err)
		}
		for name, data := range files {
			file := filepath.Join(into, name)
			if err := writeFile(file, data); err != nil {
				return err
			}
			keep = append(keep, file)
		}
	}
	return removeOthers(into, keep)
}

// readLock reads a lock file and checks that what it names stays in one folder.
func readLock(name string) ([]library, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var libraries []library
	if err := json.Unmarshal(text, &libraries); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for _, l := range libraries {
		for _, n := range l.Files {
			if n != filepath.Base(n) || !filepath.IsLocal(n) {
				return nil, fmt.Errorf("%s: %s: %q is not the name of a file", name, l.Package, n)
			}
		}
		if !strings.HasPrefix(l.Integrity, integrityPrefix) {
			return nil, fmt.Errorf("%s: %s: the integrity %q is not a SHA-512", name, l.Package, l.Integrity)
		}
	}
	return libraries, nil
}

// writeFile writes a file in one step, since another build may read it. It leaves a file
// with the same content alone.
func writeFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && string(old) == string(data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	// go:embed passes over names that begin with a dot.
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// removeOthers removes the files of a folder that are not in keep, such as the files of an
// older lock file. Names that begin with a dot belong to another build.
func removeOthers(folder string, keep []string) error {
	return filepath.WalkDir(folder, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") || slices.Contains(keep, name) {
			return err
		}
		return os.Remove(name)
	})
}
