//go:build !race

// The race detector makes licensecheck five times slower, and nothing here is concurrent.

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/cyclonedx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list is what make build gives to notices, for a platform and build tags.
func list(t *testing.T, arch, tags string) *bytes.Buffer {
	t.Helper()
	cgo := "CGO_ENABLED=0"
	if tags == "robotgo" {
		cgo = "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", "list", "-deps", "-json", "-tags", tags, "github.com/deskhand/deskhand/cmd/deskhand")
	cmd.Env = append(os.Environ(), cgo, "GOOS=linux", "GOARCH="+arch)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.Bytes())
	}
	return &out
}

// TestBOM wants every module in the CycloneDX document, with its licence, and
// the same bytes each time.
func TestBOM(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	notices := []notice{
		{kind: "golang", module: "example.com/b", version: "v2.0.0+incompatible", files: []licence{{ids: []string{"MIT"}}, {ids: []string{"MIT", "GooglePatentsFile"}}}},
		{kind: "npm", module: "@x/term", version: "6.0.0", files: []licence{{ids: []string{"MIT"}}}},
	}
	var texts [2]bytes.Buffer
	for i := range texts {
		if err := writeBOM(&texts[i], "v1.2.3", notices); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
		t.Error("two documents of the same modules differ")
	}
	var got struct {
		Metadata struct {
			Timestamp string
			Component cyclonedx.Component
		}
		Components []cyclonedx.Component
	}
	if err := json.Unmarshal(texts[0].Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata.Timestamp != "2001-09-09T01:46:40Z" || got.Metadata.Component.PURL != "pkg:golang/github.com/deskhand/deskhand@v1.2.3" {
		t.Errorf("metadata: %+v", got.Metadata)
	}
	if len(got.Components) != 3 || got.Components[0].PURL != "pkg:golang/std@"+strings.TrimPrefix(runtime.Version(), "go") ||
		got.Components[1].PURL != "pkg:golang/example.com/b@v2.0.0%2Bincompatible" || got.Components[2].PURL != "pkg:npm/%40x/term@6.0.0" {
		t.Fatalf("components: %+v", got.Components)
	}
	if l := got.Components[1].Licences; len(l) != 2 || l[0].Licence.ID != "MIT" || l[1].Licence.ID != "" || l[1].Licence.Name != "GooglePatentsFile" {
		t.Errorf("licences: %+v", l)
	}
}

// TestLinkedLicences reads the licence of every module that the binary links.
func TestLinkedLicences(t *testing.T) {
	t.Parallel()
	notices, err := collect(io.MultiReader(list(t, "amd64", ""), list(t, "arm64", ""), list(t, runtime.GOARCH, "robotgo")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/jezek/xgb", "github.com/gofiber/fiber/v2", "modernc.org/sqlite", "github.com/go-vgo/robotgo", goLicence} {
		if !slices.ContainsFunc(notices, func(n notice) bool { return n.module == want && len(n.files) > 0 }) {
			t.Errorf("%s is not among %d modules with a licence", want, len(notices))
		}
	}
	var out bytes.Buffer
	if err := write(&out, notices); err != nil {
		t.Fatal(err)
	}
	for _, n := range notices {
		if !strings.Contains(out.String(), "\n"+n.module+" "+n.version+"\n") {
			t.Errorf("%s is not in the notices", n.module)
		}
		for _, f := range n.files {
			if !bytes.Contains(out.Bytes(), bytes.TrimSpace(f.text)) {
				t.Errorf("the text of %s is not in the notices", f.name)
			}
		}
	}
}

// TestLibs reads the licences of the npm packages of a lock file, and wants one of each.
func TestLibs(t *testing.T) {
	t.Parallel()
	mit, err := os.ReadFile(filepath.Join("testdata", "MIT"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lock, licence := filepath.Join(dir, "libs.lock"), filepath.Join(dir, "ui", "lib", "term.LICENSE.txt")
	if err := os.MkdirAll(filepath.Dir(licence), 0o700); err != nil {
		t.Fatal(err)
	}
	refused := func(files, text, want string) {
		t.Helper()
		if err := os.WriteFile(lock, []byte(`[{"package":"@x/term","version":"6.0.0","files":`+files+`}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(licence, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := collectLibs(lock); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("collectLibs() = %v, want an error with %q", err, want)
		}
	}
	named := `{"LICENSE":"term.LICENSE.txt"}`
	refused(`{}`, "", "the LICENSE of @x/term is not among its files")
	refused(named, "", "run make libs")
	refused(named, "You may use this on Tuesdays.", "@x/term/LICENSE is no licence that is known")
	if err := os.WriteFile(licence, mit, 0o600); err != nil {
		t.Fatal(err)
	}
	notices, err := collectLibs(lock)
	if err != nil || len(notices) != 1 {
		t.Fatalf("%v, %v", notices, err)
	}
	var out bytes.Buffer
	if err := write(&out, notices); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\n@x/term 6.0.0\n    @x/term/LICENSE: text 1 (MIT)\n") || !bytes.Contains(out.Bytes(), bytes.TrimSpace(mit)) {
		t.Errorf("the notices are\n%s", out.Bytes())
	}
}

// TestStandardLibrary makes sure that the licence of goLicence is Go's own.
func TestStandardLibrary(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		t.Skip("this Go was packaged without its licence: ", err)
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", goLicence).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "LICENSE"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the licence of %s is not that of Go: %v", goLicence, err)
	}
}

func TestRefusedLicences(t *testing.T) {
	t.Parallel()
	mit, err := os.ReadFile(filepath.Join("testdata", "MIT"))
	if err != nil {
		t.Fatal(err)
	}
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public " +
		"License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  string // in the error; "" means none
	}{
		"MIT":                 {map[string]string{"LICENSE": string(mit)}, ""},
		"GPL":                 {map[string]string{"COPYING": gpl}, "example.org/m/COPYING is under GPL"},
		"MIT and GPL":         {map[string]string{"LICENSE": string(mit) + "\n" + gpl}, "is under GPL"},
		"GPL beside MIT":      {map[string]string{"LICENSE": string(mit), "LICENSE-3RD-PARTY": gpl}, "LICENSE-3RD-PARTY is under GPL"},
		"GPL in a folder":     {map[string]string{"LICENSE": string(mit), "sub/pkg/COPYING": gpl}, "sub/pkg/COPYING is under GPL"},
		"GPL of another part": {map[string]string{"LICENSE": string(mit), "other/COPYING": gpl}, ""},
		"none":                {map[string]string{"README": string(mit)}, "has no licence file"},
		"unknown":             {map[string]string{"LICENSE": "You may use this on Tuesdays."}, "is no licence that is known"},
		"conditions after":    {map[string]string{"LICENSE": string(mit) + strings.Repeat("You may use this on Tuesdays. ", 100)}, "is no licence that is known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pkg := filepath.Join(dir, "sub", "pkg")
			if err := os.MkdirAll(pkg, 0o777); err != nil {
				t.Fatal(err)
			}
			for file, text := range test.files {
				file = filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			packages, err := json.Marshal(map[string]any{
				"ImportPath": "example.org/m/sub/pkg", "Dir": pkg,
				"Module": map[string]any{"Path": "example.org/m", "Version": "v1.0.0", "Dir": dir},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = collect(bytes.NewReader(packages))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("collect() = %v, want an error with %q", err, test.want)
			}
		})
	}
}
