package deskhand_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// guides are the pages whose commands TestGuides runs, in this order.
var guides = []string{"desktops", "recording", "processes-and-files", "live-view", "agents", "models", "browser", "computer-use", "http-api"}

var blocks = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// TestGuides runs the commands of the guides and compares what they print with the pages.
// Numbers may differ, and so may the text in place of "...".
func TestGuides(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "chromium", "curl", "ffmpeg", "ffprobe", "zenity", "/usr/libexec/at-spi-bus-launcher")
	base, token := startDemo(t, t.TempDir())
	for _, name := range guides {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // they use one desktop
			var shown strings.Builder
			for _, block := range blocks.FindAllStringSubmatch(read(t, "docs/"+name+".md"), -1) {
				if block[1] != "console" {
					t.Errorf("a block of %s, which no test runs:\n%s", block[1], block[2])
				}
				shown.WriteString(block[2])
			}
			script, want := session(shown.String())
			script = strings.NewReplacer("http://127.0.0.1:2468", base, "THE-TOKEN", token, "/tmp/deskhand-guide", filepath.Join(t.TempDir(), "guide")).Replace(script)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir = t.TempDir()
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("the commands end with %v", err)
			}
			if got := lines(string(out)); !regexp.MustCompile(`^` + pattern(lines(want)) + `$`).MatchString(got) {
				t.Errorf("the commands print:\n%s\nthe page says:\n%s\n%s", got, want, firstDifference(got, lines(want)))
			}
		})
	}
}

// pattern returns a regular expression for what a page shows.
func pattern(shown string) string {
	p := regexp.QuoteMeta(shown)
	p = strings.ReplaceAll(p, `\.\.\.`, `.*?`)
	p = regexp.MustCompile(`/tmp/deskhand-guide`).ReplaceAllString(p, `[^"]*/guide`)
	p = regexp.MustCompile(`(rec|tok|mock)([_-])[0-9a-zA-Z]+`).ReplaceAllString(p, `$1$2[0-9a-zA-Z]+`)
	return regexp.MustCompile(`[0-9]+`).ReplaceAllStringFunc(p, func(n string) string {
		if n == "0" || n == "9" {
			return n // of a class above
		}
		return `[0-9]+`
	})
}

// firstDifference describes the first line that a page does not have.
func firstDifference(got, want string) string {
	wanted := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || !regexp.MustCompile(`^`+pattern(wanted[i])+`$`).MatchString(line) {
			shown := ""
			if i < len(wanted) {
				shown = wanted[i]
			}
			return "first difference:\n" + line + "\n" + shown
		}
	}
	return ""
}

// TestEmbedding keeps the programs of the guide the ones that compile and run.
func TestEmbedding(t *testing.T) {
	t.Parallel()
	var examples strings.Builder
	for _, folder := range []string{"desktop", "desktop/fleet", "webrtc", "recording", "agents", "httpapi"} {
		examples.WriteString(strings.ReplaceAll(read(t, folder+"/example_test.go"), "\tdefer os.Remove(\"desk.png\") // the example leaves no file behind\n", ""))
	}
	programs := 0
	for _, block := range blocks.FindAllStringSubmatch(read(t, "docs/embedding.md"), -1) {
		if block[1] != "go" {
			continue
		}
		programs++
		code := regexp.MustCompile(`(?m)^([^\n])`).ReplaceAllString(block[2], "\t$1")
		if !strings.Contains(examples.String(), code) {
			t.Errorf("this program is in no Example:\n%s", code)
		}
	}
	if programs < 6 {
		t.Errorf("%d programs", programs)
	}
}

// TestReadmeLength keeps the README a page that a newcomer reads to its end.
func TestReadmeLength(t *testing.T) {
	t.Parallel()
	if n := strings.Count(read(t, "README.md"), "\n"); n > 200 {
		t.Errorf("README.md has %d lines; move what is longer than 200 to docs", n)
	}
}
