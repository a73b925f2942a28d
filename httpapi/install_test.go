package httpapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMissingPrograms sees a machine on which nothing is installed.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := serve(t, Config{})
	want := []any{"Xvfb", "openbox", "dbus-daemon"}
	for range 2 { // before a start and after it failed
		st := s.get(t, "/v1/desktop/status").want(t, 200).json(t)
		if st["state"] != "install_required" || st["installCommand"] != "deskhand install desktop --yes" {
			t.Errorf("status = %v", st)
		}
		if diff := cmp.Diff(want, st["missingDependencies"]); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
		p := s.post(t, "/v1/desktop/start", "").problem(t, 503, "desktop_dependencies_missing")
		if diff := cmp.Diff(want, p["missingDependencies"]); diff != "" || p["installCommand"] != st["installCommand"] {
			t.Errorf("problem = %v", p)
		}
	}
}
