package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPinnedActions wants every action of the workflows pinned by a commit, with
// its version beside it.
func TestPinnedActions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	commits := map[string]string{} // of an action
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, use, found := strings.Cut(strings.TrimSpace(line), "uses: ")
			if !found {
				continue
			}
			if !pinned.MatchString(strings.TrimSpace(line)) {
				t.Errorf("%s: %q is not pinned as uses: OWNER/NAME@COMMIT # vVERSION", file, use)
			}
			name, commit, _ := strings.Cut(use, "@")
			if other, ok := commits[name]; ok && other != commit {
				t.Errorf("%s uses %s of another commit than a workflow beside it", file, name)
			}
			commits[name] = commit
		}
	}
	if len(commits) < 5 {
		t.Errorf("only %d actions found", len(commits))
	}
}

// TestSameBaseURL wants install.sh, which has the URL of its own, to look for
// releases where deskhand upgrade does.
func TestSameBaseURL(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../cmd/deskhand/releases.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`defaultBaseURL = "(.*)"`).FindSubmatch(source)
	script, err := os.ReadFile("install.sh")
	if err != nil || m == nil {
		t.Fatalf("%v, %q", err, m)
	}
	if !strings.Contains(string(script), "${DESKHAND_BASE_URL:-"+string(m[1])+"}") {
		t.Errorf("install.sh does not use %s", m[1])
	}
}

// TestPrometheus wants each metric of the alerts and of the dashboard in the documentation.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	dashboard, err := os.ReadFile("prometheus/dashboard.json")
	if err != nil || !json.Valid(dashboard) {
		t.Fatalf("dashboard.json: %v, valid JSON: %v", err, json.Valid(dashboard))
	}
	alerts, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`deskhand_[a-z_]+`).FindAllString(string(dashboard)+string(alerts), -1)
	if len(names) < 15 {
		t.Errorf("%d metrics in use", len(names))
	}
	for _, name := range names {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("%s is not in docs/operations.md", name)
		}
	}
}
