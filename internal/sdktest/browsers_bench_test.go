package sdktest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// BenchmarkPlaywright times operations of Playwright through the server, and at a browser with
// the same flags directly: the metric "percent" is the sum of the medians of the direct
// connection, as a part of the server's.
func BenchmarkPlaywright(b *testing.B) {
	testx11.Require(b, "node", "npm", "Xvfb", "openbox", "dbus-daemon", "chromium")
	modules, err := installFrom(b.Context(), browsers, "browsers")
	if err != nil {
		b.Fatal(err)
	}
	script, err := browsers.ReadFile("browsers/devtools.bench.mjs")
	if err != nil {
		b.Fatal(err)
	}
	binary, err := built()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "devtools.bench.mjs"), script, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		b.Fatal(err)
	}
	server, err := Start(b.Context(), Config{Binary: binary, Home: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	out := new(testlog.Buffer)
	for b.Loop() {
		err := Run(b.Context(), supervise.Spec{
			Path: "node", Args: []string{"devtools.bench.mjs"}, Dir: dir, Output: out, Grace: time.Second,
			Env: supervise.Environ(environ(server.Home), "SDKTEST_URL="+server.URL, "SDKTEST_TOKEN="+server.Token,
				"BENCH_ROUNDS=10", "TMPDIR="+b.TempDir()),
		})
		if err != nil {
			b.Fatalf("node: %v\n%s", err, out)
		}
	}
	var medians map[string]struct{ Server, Direct float64 }
	if err := json.Unmarshal([]byte(out.String()), &medians); err != nil {
		b.Fatalf("%v in %s", err, out)
	}
	var all struct{ server, direct float64 }
	for operation, m := range medians {
		b.Logf("%s: %.2f ms through the server, %.2f ms directly", operation, m.Server/1000, m.Direct/1000)
		all.server, all.direct = all.server+m.Server, all.direct+m.Direct
	}
	b.ReportMetric(100*all.direct/all.server, "percent")
}
