package deploytest

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// repository reads a file of the repository.
func repository(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// image returns the last value of an instruction in the Dockerfile.
func image(t *testing.T, instruction string) string {
	t.Helper()
	all := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(repository(t, "Dockerfile"), -1)
	if len(all) == 0 {
		t.Fatalf("the Dockerfile has no %s", instruction)
	}
	return all[len(all)-1][1]
}

// TestCompose has docker-compose check the file as the guide says, and compares it
// with the image.
func TestCompose(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "docker-compose")
	file := repository(t, "deploy/compose/compose.yaml")
	dir := filepath.Join(t.TempDir(), "compose")
	if err := os.CopyFS(filepath.Dir(dir), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", block(t, "docs/deploy/compose.md", "config", "docker compose", "docker-compose"))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	home, token := image(t, "WORKDIR"), regexp.MustCompile(`DESKHAND_TOKEN: [A-Za-z0-9_-]{32}\n`)
	for _, want := range []string{":" + home + ":rw", "mem_limit: 4g", "pids_limit: 2048", "restart: unless-stopped", "no-new-privileges:true", "seccomp"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the configuration has no %q", want)
		}
	}
	if !token.Match(out) {
		t.Error("the configuration has no token of 32 characters")
	}
	for exposed := range strings.FieldsSeq(image(t, "EXPOSE")) {
		port := strings.TrimSuffix(exposed, "/tcp")
		if !regexp.MustCompile(`(?m)^ +- "(\S+:)?\d+:` + port + `"`).MatchString(file) {
			t.Errorf("port %s of the image is not published", exposed)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// pod is what the test looks at in a pod.
type pod struct {
	SecurityContext struct{ RunAsUser, RunAsGroup int64 }
	Containers      []container
}

type container struct {
	Args         []string
	Ports        []struct{ ContainerPort int }
	VolumeMounts []struct{ MountPath string }
	Env          []struct{ Name string }

	LivenessProbe, ReadinessProbe, StartupProbe struct{ HTTPGet struct{ Path string } }
}

// TestKubernetes decodes the manifests strictly by the types of Kubernetes, then
// runs the server as the pod would, and asks what the probes ask.
func TestKubernetes(t *testing.T) {
	slow(t)
	t.Parallel()
	p := decodePod(t, repository(t, "deploy/kubernetes/deskhand.yaml"))
	c := p.Containers[0]
	if user := image(t, "USER"); user != "1000:0" || p.SecurityContext.RunAsUser != 1000 || p.SecurityContext.RunAsGroup != 0 {
		t.Errorf("the pod runs as %d:%d, the image as %s", p.SecurityContext.RunAsUser, p.SecurityContext.RunAsGroup, user)
	}
	if home := image(t, "WORKDIR"); c.VolumeMounts[0].MountPath != home {
		t.Errorf("the volume is at %s, the image's home at %s", c.VolumeMounts[0].MountPath, home)
	}
	if c.Ports[0].ContainerPort != 2468 || c.Env[0].Name != "DESKHAND_TOKEN" {
		t.Errorf("port %d, variable %s; want the server's", c.Ports[0].ContainerPort, c.Env[0].Name)
	}
	s := serve(t, "deskhand "+strings.Join(c.Args, " "))
	for _, path := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path, c.StartupProbe.HTTPGet.Path} {
		resp, err := s.direct().http.Get("http://" + s.at + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s without a token: %s: %s", path, resp.Status, text)
		}
	}

	// The guide's change for media.
	announce := strings.ReplaceAll(strings.TrimSuffix(block(t, "docs/deploy/kubernetes.md", "announce"), "\n"), "\n", "\n          ")
	changed := strings.Replace(repository(t, "deploy/kubernetes/deskhand.yaml"), "args: [server, --host, 0.0.0.0]\n          env:", announce, 1)
	c = decodePod(t, changed).Containers[0]
	if len(c.Env) != 2 || !slices.Contains(c.Args, "$("+c.Env[0].Name+")") {
		t.Errorf("the changed pod: %+v", c)
	}
	args := strings.ReplaceAll(strings.Join(c.Args, " "), "$("+c.Env[0].Name+")", "203.0.113.7")
	d := serve(t, "deskhand "+args).direct().call(t, http.MethodGet, "/v1/desktop/stream/diagnose", "")
	if told, _ := json.Marshal(d["addresses"]); !strings.Contains(string(told), "udp 203.0.113.7:") {
		t.Errorf("viewers are told %s, want the announced address", told)
	}
}

// decodePod has a program with the types of Kubernetes read manifests, or build the kustomization
// of a folder.
func decodePod(t *testing.T, manifests string, folder ...string) pod {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "."}, folder...)...)
	cmd.Dir = "testdata/kubernetes"
	cmd.Stdin = strings.NewReader(manifests)
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	var p pod
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	return p
}
