// Command sbom writes what the file system of a container image consists of, as
// a CycloneDX document.
//
// # Usage
//
//	sbom [-root DIR] [-libs FILE] FILE [NAME=VERSION]...
//
// It lists the packages that dpkg has installed, the modules that are linked
// into /usr/local/bin/deskhand, the npm packages of its web page (-libs) and
// below /usr/local, and the programs that the arguments name. The document has neither a time nor a
// random number: the same image gives the same document.
package main

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/cyclonedx"
)

func main() {
	root := flag.String("root", "/", "file system to describe")
	libs := flag.String("libs", "", "the lock `file` of the web page's npm packages")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: sbom [-root DIR] [-libs FILE] FILE [NAME=VERSION]...")
		os.Exit(2)
	}
	if err := run(*root, *libs, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(root, libs, file string, programs []string) error {
	d, err := describe(root, libs, programs)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := d.Write(&text); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

func describe(root, libs string, programs []string) (cyclonedx.Document, error) {
	d := cyclonedx.Document{Component: cyclonedx.Component{Type: "container", Name: "deskhand"}}
	for _, read := range []func(root string) ([]cyclonedx.Component, error){debianPackages, goModules, npmPackages} {
		list, err := read(root)
		if err != nil {
			return d, err
		}
		d.Components = append(d.Components, list...)
	}
	if libs != "" {
		list, err := pagePackages(libs)
		if err != nil {
			return d, err
		}
		d.Components = append(d.Components, list...)
	}
	for _, p := range programs {
		name, version, _ := strings.Cut(p, "=")
		d.Components = append(d.Components, cyclonedx.Library("generic", name, version, ""))
	}
	slices.SortFunc(d.Components, func(a, b cyclonedx.Component) int { return strings.Compare(a.PURL, b.PURL) })
	d.Components = slices.CompactFunc(d.Components, func(a, b cyclonedx.Component) bool { return a.PURL == b.PURL })
	return d, nil
}

// debianPackages reads dpkg's list: paragraphs of "Field: value" lines.
func debianPackages(root string) ([]cyclonedx.Component, error) {
	release, err := fields(filepath.Join(root, "etc/os-release"), "=")
	if err != nil {
		return nil, err
	}
	if len(release) == 0 {
		return nil, errors.New("etc/os-release is empty")
	}
	id, number := strings.Trim(release[0]["ID"], `"`), strings.Trim(release[0]["VERSION_ID"], `"`)
	packages, err := fields(filepath.Join(root, "var/lib/dpkg/status"), ": ")
	if err != nil {
		return nil, err
	}
	var list []cyclonedx.Component
	for _, p := range packages {
		if !strings.HasSuffix(p["Status"], " installed") {
			continue
		}
		c := cyclonedx.Library("deb/"+id, p["Package"], p["Version"], "arch="+p["Architecture"]+"&distro="+id+"-"+number)
		list = append(list, c)
	}
	return list, nil
}

// fields reads a file of paragraphs, each of lines "NAME" + separator + "VALUE".
func fields(file, separator string) ([]map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []map[string]string
	open := false
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), separator)
		if lines.Text() == "" {
			open = false
		}
		if !ok || strings.HasPrefix(name, " ") {
			continue
		}
		if !open {
			list, open = append(list, map[string]string{}), true
		}
		list[len(list)-1][name] = value
	}
	return list, lines.Err()
}

// goModules returns the modules in the deskhand binary and the Go version that built it.
func goModules(root string) ([]cyclonedx.Component, error) {
	info, err := buildinfo.ReadFile(filepath.Join(root, "usr/local/bin/deskhand"))
	if err != nil {
		return nil, err
	}
	list := []cyclonedx.Component{cyclonedx.Library("golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, cyclonedx.Library("golang", m.Path, m.Version, ""))
	}
	return list, nil
}

// pagePackages returns the npm packages of a lock file of package httpapi.
func pagePackages(lock string) ([]cyclonedx.Component, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var packages []struct{ Package, Version string }
	if err := json.Unmarshal(text, &packages); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	var list []cyclonedx.Component
	for _, p := range packages {
		list = append(list, cyclonedx.Library("npm", p.Package, p.Version, ""))
	}
	return list, nil
}

// npmPackages returns the packages in every node_modules folder below /usr/local.
func npmPackages(root string) ([]cyclonedx.Component, error) {
	var list []cyclonedx.Component
	err := filepath.WalkDir(filepath.Join(root, "usr/local"), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "package.json" || !isPackage(filepath.Dir(file)) {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var p struct{ Name, Version string }
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, cyclonedx.Library("npm", p.Name, p.Version, ""))
		return nil
	})
	return list, err
}

// isPackage reports whether a folder is node_modules/NAME or
// node_modules/@SCOPE/NAME.
func isPackage(dir string) bool {
	dir = filepath.Dir(dir)
	if strings.HasPrefix(filepath.Base(dir), "@") {
		dir = filepath.Dir(dir)
	}
	return filepath.Base(dir) == "node_modules"
}
