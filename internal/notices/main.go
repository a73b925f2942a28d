// Command notices writes the licences of the modules that a program links and of the npm
// packages of its web page.
//
// # Usage
//
//	go list -deps -json ./cmd/deskhand | go run ./internal/notices -libs httpapi/libs.lock > bin/THIRD_PARTY_NOTICES
//
// With -sbom v1.2.3 it writes the modules and packages of that version of deskhand as a
// CycloneDX document.
//
// It fails and names the file if one of them has no licence, a licence that
// licensecheck does not recognise, or one under which deskhand may not be
// distributed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed lists the licences that linked code may have (SPDX identifiers), and
// patent grants that come with some of them.
var allowed = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense", "WTFPL", "Zlib",
	"CC-BY-4.0", // of documentation
	"GooglePatentClause", "GooglePatentsFile",
}

// reviewed lists files that licensecheck does not know, with the licence that a person found.
var reviewed = map[string]string{
	"github.com/prometheus/client_golang/NOTICE": "Apache-2.0",
	"github.com/prometheus/client_model/NOTICE":  "Apache-2.0",
	"github.com/prometheus/common/NOTICE":        "Apache-2.0",
	"github.com/prometheus/procfs/NOTICE":        "Apache-2.0",
	"modernc.org/memory/LICENSE-LOGO":            "the origin of a picture that is not linked",
	"modernc.org/sqlite/LICENSE-SQLITE":          "public domain",
}

// minCoverage is how much of a licence file must be a known licence, in percent.
// It is the threshold of pkg.go.dev.
const minCoverage = 75

var (
	mainFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)(\.(txt|md))?$`)
	sideFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|notice|patents)([-._].*)?$`)
)

// goLicence is the module whose licence is also that of Go's standard library.
const goLicence = "golang.org/x/sys"

// listed is a package as go list -json describes it.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// notice is a module, or a package of npm, and its licence files.
type notice struct {
	kind            string // of package URLs: golang or npm
	module, version string
	files           []licence
}

// licence is one file. Its name begins with the module's path.
type licence struct {
	name string
	ids  []string
	text []byte
}

func main() {
	sbom := flag.String("sbom", "", "write a CycloneDX document of this `version` of deskhand")
	libs := flag.String("libs", "", "the lock `file` of the page's third-party code")
	flag.Parse()
	notices, err := collect(os.Stdin)
	if err == nil && *libs != "" {
		var more []notice
		more, err = collectLibs(*libs)
		notices = append(notices, more...)
	}
	switch {
	case err != nil:
	case *sbom != "":
		err = writeBOM(os.Stdout, *sbom, notices)
	default:
		err = write(os.Stdout, notices)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// collect reads the output of go list -deps -json and returns the linked modules
// in the order of their paths. Its error names every file that is not allowed.
func collect(packages io.Reader) ([]notice, error) {
	var notices []notice
	var problems []error
	for d := json.NewDecoder(packages); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		i := slices.IndexFunc(notices, func(n notice) bool { return n.module == p.Module.Path })
		if i < 0 {
			i = len(notices)
			notices = append(notices, notice{kind: "golang", module: p.Module.Path, version: p.Module.Version})
			if err := notices[i].add(p.Module.Dir, ".", true); err != nil {
				problems = append(problems, err)
			}
		}
		below, err := filepath.Rel(p.Module.Dir, p.Dir)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
		for ; below != "."; below = filepath.Dir(below) { // code of others has its licence beside it
			if err := notices[i].add(p.Module.Dir, below, false); err != nil {
				problems = append(problems, err)
			}
		}
	}
	slices.SortFunc(notices, func(a, b notice) int { return strings.Compare(a.module, b.module) })
	return notices, errors.Join(problems...)
}

// collectLibs returns the npm packages of the web page. Their files are in ui/lib beside
// the lock file.
func collectLibs(lock string) ([]notice, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var libraries []struct {
		Package, Version string
		Files            map[string]string
	}
	if err := json.Unmarshal(text, &libraries); err != nil {
		return nil, fmt.Errorf("read %s: %w", lock, err)
	}
	var notices []notice
	var problems []error
	for _, l := range libraries {
		file, name := l.Files["LICENSE"], l.Package+"/LICENSE"
		if file == "" {
			problems = append(problems, fmt.Errorf("%s: the LICENSE of %s is not among its files", lock, l.Package))
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(lock), "ui/lib", file))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: run make libs", err)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		ids, err := classify(name, text, true)
		if err != nil {
			problems = append(problems, err)
		}
		notices = append(notices, notice{"npm", l.Package, l.Version, []licence{{name, ids, text}}})
	}
	return notices, errors.Join(problems...)
}

// add adds the licence files of a folder of a module. The module's own folder
// must have one.
func (n *notice) add(moduleDir, folder string, required bool) error {
	entries, err := os.ReadDir(filepath.Join(moduleDir, folder))
	if err != nil {
		return fmt.Errorf("licence of %s: %w", n.module, err)
	}
	found := false
	for _, e := range entries {
		name := path.Join(n.module, filepath.ToSlash(folder), e.Name())
		if e.IsDir() || !sideFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") ||
			slices.ContainsFunc(n.files, func(l licence) bool { return l.name == name }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(moduleDir, folder, e.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", n.module, err)
		}
		ids, err := classify(name, text, mainFile.MatchString(e.Name()))
		if err != nil {
			return err
		}
		found = found || mainFile.MatchString(e.Name())
		n.files = append(n.files, licence{name, ids, text})
	}
	if required && !found {
		return fmt.Errorf("%s has no licence file: link another module, or none", n.module)
	}
	return nil
}

// classify returns the licences in a file. If whole is set, little of the file may be
// other text; a list of the licences of parts may contain more.
func classify(name string, text []byte, whole bool) ([]string, error) {
	if what, ok := reviewed[name]; ok {
		return []string{what}, nil
	}
	coverage := licensecheck.Scan(text)
	var ids []string
	for _, m := range coverage.Match {
		if !slices.Contains(allowed, m.ID) {
			return nil, fmt.Errorf("%s is under %s, with which deskhand may not be distributed: link another module", name, m.ID)
		}
		if !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 || whole && coverage.Percent < minCoverage {
		return nil, fmt.Errorf("%s is no licence that is known (%.0f %% of it is %v): read it, and link another module if it restricts users",
			name, coverage.Percent, ids)
	}
	return ids, nil
}

// write writes the texts. A text that several modules share is written once.
func write(to io.Writer, notices []notice) error {
	var out bytes.Buffer
	out.WriteString("deskhand contains Go's standard library and the modules and npm packages below, under the licences that follow.\n" +
		"The licence of the standard library is that of " + goLicence + ".\n\n")
	var texts [][]byte
	for _, n := range notices {
		fmt.Fprintf(&out, "%s %s\n", n.module, n.version)
		for _, f := range n.files {
			i := slices.IndexFunc(texts, func(t []byte) bool { return bytes.Equal(t, f.text) })
			if i < 0 {
				i = len(texts)
				texts = append(texts, f.text)
			}
			fmt.Fprintf(&out, "    %s: text %d (%s)\n", f.name, i+1, strings.Join(f.ids, ", "))
		}
	}
	for i, text := range texts {
		fmt.Fprintf(&out, "\n%s\nText %d\n\n%s\n", strings.Repeat("-", 72), i+1, bytes.TrimSpace(text))
	}
	_, err := to.Write(out.Bytes())
	return err
}
