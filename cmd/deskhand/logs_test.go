package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLevels(t *testing.T) {
	t.Parallel()
	l, err := parseLevels("webrtc=debug,WARN,agents=error,agents/eventlog=info,internal=warn")
	if err != nil {
		t.Fatal(err)
	}
	for pkg, want := range map[string]slog.Level{
		"webrtc": slog.LevelDebug, "webrtc/internal/network": slog.LevelDebug, "webrtcs": slog.LevelWarn, "desktop": slog.LevelWarn,
		"agents": slog.LevelError, "agents/computer": slog.LevelError, "agents/eventlog": slog.LevelInfo, "": slog.LevelWarn,
	} {
		if got := l.of(pkg); got != want {
			t.Errorf("level of %q is %s, want %s", pkg, got, want)
		}
	}
	if l.least() != slog.LevelDebug {
		t.Errorf("the least level is %s", l.least())
	}
	for text, want := range map[string]string{
		"":                  `--log-level must be debug, info, warn or error, not ""`,
		"loud":              `--log-level must be debug, info, warn or error, not "loud"`,
		"info,webrtc=":      `--log-level must be debug, info, warn or error, not ""`,
		"info,debug":        `--log-level "info,debug" has two levels for all packages`,
		"info,webrct=debug": `--log-level: no package in the folder "webrct" writes to the log; these do: agents, agents/computer`,
		"=debug":            `--log-level: no package in the folder "" writes to the log`,
	} {
		if _, err := parseLevels(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestLevelsOfPackages logs from this package and from none that is known.
func TestLevelsOfPackages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"error,cmd=debug":                     "debug info error",
		"debug,cmd/deskhand=warn":             "error",
		"warn,webrtc=debug":                   "error",
		"warn,cmd=debug,cmd/deskhand=info":    "info error",
		"cmd=info,error,webrtc/internal=warn": "info error",
	} {
		l, err := parseLevels(text)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log := slog.New(l.handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: l.least()}))).With("a", 1).WithGroup("g")
		log.Debug("debug")
		log.Info("info")
		log.Error("error")
		var got []string
		for _, m := range regexp.MustCompile(`msg=(\w+) a=1`).FindAllStringSubmatch(out.String(), -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", text, got, want)
		}
	}
}

// TestLoggingPackages compares the list of packages with calls of loggers in the code.
func TestLoggingPackages(t *testing.T) {
	t.Parallel()
	logs := regexp.MustCompile(`(?i)\b(log|logger)\.(Debug|Info|Warn|Error|Log)(Context|Attrs)?\(`)
	var found []string
	err := filepath.WalkDir("../..", func(file string, e fs.DirEntry, err error) error {
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(file), "../../"))
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || e.Name() == "node_modules" || e.Name() == "examples" || strings.HasPrefix(e.Name(), ".") && e.Name() != ".."):
			return filepath.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(found, folder):
			return nil
		case strings.HasPrefix(folder, "internal/bench") || strings.HasPrefix(folder, "internal/test"):
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			if spec.Path.Value == `"log"` {
				return nil
			}
		}
		text, err := os.ReadFile(file)
		if logs.Match(text) {
			found = append(found, folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if diff := cmp.Diff(loggingPackages, found); diff != "" {
		t.Errorf("loggingPackages (-list +code):\n%s", diff)
	}
}
