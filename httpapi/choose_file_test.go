package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestChooseFile chooses files in a dialog, by the route and in a list of actions.
func TestChooseFile(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "zenity")
	s := startReal(t, Config{}, `{"width":1024,"height":768}`)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "a report.txt"), filepath.Join(dir, "chosen")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := fmt.Sprintf(`{"app":"sh","args":["-c","zenity --file-selection > \"$0\"",%q],"wait":true}`, out)
	chosen := func() {
		t.Helper()
		eventually(t, "zenity prints the file", func() bool {
			got, _ := os.ReadFile(out)
			return strings.TrimSpace(string(got)) == file
		})
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
	p := s.post(t, mainPath+"/choose-file", `{"path":"/etc/hosts","timeoutMs":100}`).problem(t, 409, "file_dialog_failed")
	if detail, _ := p["detail"].(string); !strings.Contains(detail, "open the file dialog first") {
		t.Errorf("detail = %q", detail)
	}
	s.post(t, mainPath+"/choose-file", `{"path":"report.txt"}`).problem(t, 400, "desktop_invalid_action")

	s.post(t, mainPath+"/launch", open).want(t, 200)
	s.post(t, mainPath+"/choose-file", fmt.Sprintf(`{"path":%q}`, file)).want(t, 200)
	chosen()
	a := s.post(t, mainPath+"/actions", fmt.Sprintf(`{"actions":[{"type":"launch",%s,{"type":"chooseFile","path":%q}]}`, open[1:], file)).want(t, 200).json(t)
	if a["done"] != float64(2) {
		t.Errorf("actions answered %v", a["results"])
	}
	chosen()
}
