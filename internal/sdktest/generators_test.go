package sdktest

import (
	"context"
	"embed"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed generators
var generators embed.FS

// generatorLimit is how long a generator, a linter or a compiler may take.
const generatorLimit = 5 * time.Minute

// TestGenerators lints the OpenAPI document, and generates clients from it, which
// compile. Each linter fails on warnings: the rules that are switched off are in
// generators/ with their reasons.
func TestGenerators(t *testing.T) {
	t.Parallel()
	document, err := filepath.Abs("../../httpapi/testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/go")); err != nil {
			t.Fatal(err)
		}
		generate(t, dir, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "-o", "client.go", document)
		generate(t, dir, "go", "build", ".")
	})
	t.Run("npm", func(t *testing.T) {
		t.Parallel()
		testx11.Require(t, "node", "npm")
		modules, err := installFrom(t.Context(), generators, "generators")
		if err != nil {
			t.Fatal(err)
		}
		program := func(name string) string { return filepath.Join(modules, ".bin", name) }
		dir := t.TempDir()
		for _, name := range []string{"redocly.yaml", "spectral.yaml", "tsconfig.json"} {
			text, err := generators.ReadFile("generators/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		generate(t, dir, program("redocly"), "lint", document, "--config", "redocly.yaml")
		generate(t, dir, program("spectral"), "lint", document, "--ruleset", "spectral.yaml", "--fail-severity", "hint")
		generate(t, dir, program("openapi-typescript"), document, "-o", "schema.ts")
		generate(t, dir, program("openapi-ts"), "-i", document, "-o", "hey-api")
		generate(t, dir, program("tsc"), "-p", ".")
	})
}

// generate runs a generator, a linter or a compiler, which must succeed.
func generate(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generatorLimit)
	defer cancel()
	err := Run(ctx, supervise.Spec{
		Path: program, Args: args, Dir: dir,
		Env: supervise.Environ(os.Environ(), "PWD="+dir, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"),
	})
	if err != nil {
		t.Error(err)
	}
}
