package deploytest

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestOverlays builds the overlays for Kubernetes and the sandboxes of agent-sandbox, decodes them
// strictly, and runs the server as the pods would.
func TestOverlays(t *testing.T) {
	slow(t)
	t.Parallel()
	pods := map[string]container{}
	for _, name := range []string{"overlays/one", "overlays/fleet", "agent-sandbox"} {
		p := decodePod(t, "", overlay(t, name))
		c := p.Containers[0]
		if p.SecurityContext.RunAsUser != 1000 || p.SecurityContext.RunAsGroup != 0 || c.VolumeMounts[0].MountPath != image(t, "WORKDIR") {
			t.Errorf("%s: the pod does not run as the image does: %+v", name, p)
		}
		pods[name] = c
	}
	fleet := pods["overlays/fleet"]
	if len(fleet.Env) != 4 || fleet.Env[1].Name != "DESKHAND_DATABASE" || !strings.Contains(strings.Join(fleet.Args, " "), "env:"+fleet.Env[2].Name) {
		t.Errorf("the fleet has no database or no TURN server: %+v", fleet)
	}
	for name, c := range pods {
		if name == "overlays/fleet" {
			c.Args = slices.DeleteFunc(slices.Clone(c.Args), func(arg string) bool { return strings.HasPrefix(arg, "--ice-server=") }) // its secret
		}
		t.Run(name, func(t *testing.T) { servesAs(t, c) })
	}
}

// servesAs runs the server with the arguments of a container, and asks for what Kubernetes and
// Prometheus ask for.
func servesAs(t *testing.T, c container) {
	t.Helper()
	metrics := "127.0.0.1:" + testspace.Port(t)
	args := slices.DeleteFunc(slices.Clone(c.Args), func(arg string) bool { return arg == "--log-format=json" }) // serve reads text
	command := strings.NewReplacer("0.0.0.0:9090", metrics, "$(POD_NAME)", "deskhand-0").Replace("deskhand " + strings.Join(args, " "))
	s := serve(t, command)
	for _, url := range []string{"http://" + s.at + c.ReadinessProbe.HTTPGet.Path, "http://" + metrics + "/metrics"} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", url, resp.Status, text)
		}
	}
}

// overlay returns the folder of a kustomization.
func overlay(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../deploy/kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAlerts has promtool check the alert rules, and their tests.
func TestAlerts(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = "../../deploy/prometheus"
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
