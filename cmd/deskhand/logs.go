package main

import (
	"context"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strings"
)

// loggingPackages are the packages that write to the log, by their folders.
var loggingPackages = []string{
	"agents", "agents/computer", "agents/eventlog", "agents/mockagent", "agents/registry", "cmd/deskhand", "desktop", "desktop/browser", "desktop/fleet",
	"filesystem", "httpapi/internal/acp", "httpapi/internal/agenthost", "httpapi/internal/browser", "httpapi/internal/desktops", "httpapi/internal/grants",
	"httpapi/internal/opencode", "httpapi/internal/rest", "httpapi/internal/sessions", "internal/otlp", "internal/panics", "internal/supervise", "internal/x11", "internal/x11/quiesce",
	"process", "recording", "recording/timeline", "webrtc", "webrtc/internal/network",
}

// levels are the levels of --log-level: one for the packages in a folder, and one for all
// other packages.
type levels struct {
	others slog.Level
	below  map[string]slog.Level // by folder
}

// parseLevels parses the value of --log-level, such as "info,webrtc=debug".
func parseLevels(text string) (levels, error) {
	l, given := levels{below: map[string]slog.Level{}}, false
	for _, part := range strings.Split(text, ",") {
		folder, word, named := strings.Cut(part, "=")
		if !named {
			word = part
		}
		var level slog.Level
		if err := choose("log-level", strings.ToLower(word), "debug", "info", "warn", "error"); err != nil {
			return l, err
		}
		_ = level.UnmarshalText([]byte(word)) // it is one of these
		switch {
		case !named && given:
			return l, usagef("--log-level %q has two levels for all packages", text)
		case !named:
			l.others, given = level, true
		case !slices.ContainsFunc(loggingPackages, func(p string) bool { return isBelow(p, folder) }):
			return l, usagef("--log-level: no package in the folder %q writes to the log; these do: %s", folder, strings.Join(loggingPackages, ", "))
		default:
			l.below[folder] = level
		}
	}
	return l, nil
}

// isBelow reports whether a package is in a folder, or below it.
func isBelow(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// least returns the lowest level.
func (l levels) least() slog.Level {
	least := l.others
	for _, level := range l.below {
		least = min(least, level)
	}
	return least
}

// of returns the level of a package: that of the nearest folder above it.
func (l levels) of(pkg string) slog.Level {
	for folder := pkg; folder != "."; folder = path.Dir(folder) {
		if level, ok := l.below[folder]; ok {
			return level
		}
	}
	return l.others
}

// handler returns a handler that passes records on to h, which takes records of the lowest
// level, if their package has that level.
func (l levels) handler(h slog.Handler) slog.Handler {
	if len(l.below) == 0 {
		return h
	}
	return levelHandler{h, l}
}

type levelHandler struct {
	slog.Handler
	levels levels
}

// Handle implements [slog.Handler].
func (h levelHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < h.levels.of(packageAt(r.PC)) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.levels}
}

// WithGroup implements [slog.Handler].
func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.levels}
}

const modulePath = "github.com/deskhand/deskhand/"

// packageAt returns the folder of the package with a program counter.
func packageAt(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if strings.HasPrefix(frame.Function, "main.") {
		return "cmd/deskhand"
	}
	name := strings.TrimPrefix(frame.Function, modulePath)
	last := strings.LastIndexByte(name, '/') + 1
	end := strings.IndexByte(name[last:], '.')
	if end < 0 {
		return "."
	}
	return name[:last+end]
}
