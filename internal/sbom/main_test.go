package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deskhand/deskhand/internal/cyclonedx"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/os-release", "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"13\"\n")
	write("var/lib/dpkg/status", `Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 1:14.2.0-19
Description: a library
 with a second line: and more
Depends: libc6

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
`)
	write("usr/local/lib/node_modules/npm/package.json", `{"name":"npm","version":"10.9.4"}`)
	write("usr/local/lib/node_modules/npm/docs/package.json", `{"name":"not-a-package","version":"1"}`)
	write("usr/local/share/deskhand/agents/x/1/node_modules/@scope/tool/package.json", `{"name":"@scope/tool","version":"2.0.0"}`)
	binary := filepath.Join(root, "usr/local/bin/deskhand")
	if out, err := exec.Command("go", "build", "-o", binary, "../notices").CombinedOutput(); err != nil {
		t.Fatalf("build a program: %v\n%s", err, out)
	}

	d, err := describe(root, "../../httpapi/libs.lock", []string{"node=v22.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	has := func(purl string) bool {
		return slices.ContainsFunc(d.Components, func(c cyclonedx.Component) bool { return c.PURL == purl })
	}
	for _, purl := range []string{
		"pkg:deb/debian/libstdc%2B%2B6@1%3A14.2.0-19?arch=amd64&distro=debian-13", "pkg:npm/npm@10.9.4", "pkg:npm/%40scope/tool@2.0.0",
		"pkg:generic/node@v22.1.0", "pkg:npm/%40xterm/xterm@6.0.0",
	} {
		if !has(purl) {
			t.Errorf("%s is missing", purl)
		}
	}
	linked := func(name string) bool {
		return slices.ContainsFunc(d.Components, func(c cyclonedx.Component) bool { return c.Name == name && c.Version != "" })
	}
	if !linked("github.com/google/licensecheck") || !linked("stdlib") {
		t.Error("the modules of the program are missing")
	}
	if linked("gone") || linked("not-a-package") {
		t.Errorf("too much is listed: %v", d.Components)
	}
}
