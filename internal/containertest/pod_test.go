package containertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pod is what a container engine can do of a pod.
type pod struct {
	TerminationGracePeriodSeconds int
	SecurityContext               struct {
		RunAsUser, RunAsGroup, FSGroup int
		SeccompProfile                 struct{ Type string }
	}
	Containers []struct {
		Args []string
		Env  []struct{ Name string }

		Resources struct {
			Limits struct{ CPU, Memory string }
		}
		SecurityContext struct {
			AllowPrivilegeEscalation *bool
			ReadOnlyRootFilesystem   bool
			Capabilities             struct{ Add, Drop []string }
		}
		VolumeMounts []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name     string
		EmptyDir *struct{}
	}
}

// decodePod reads the pod of a manifest or of a kustomization in deploy/kubernetes.
func decodePod(t *testing.T, name string) pod {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../deploy/kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir = "../deploytest/testdata/kubernetes"
	if strings.HasSuffix(name, ".yaml") {
		manifest, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer manifest.Close()
		cmd.Stdin = manifest
	} else {
		cmd.Args = append(cmd.Args, path)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, &stderr)
	}
	var p pod
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// flags returns the flags of docker run that give a container the settings of the pod.
func (p *pod) flags(t *testing.T, e *engine) []string {
	t.Helper()
	c, own := p.Containers[0], p.SecurityContext
	flags := []string{
		"--user", fmt.Sprintf("%d:%d", own.RunAsUser, own.RunAsGroup), "--group-add", strconv.Itoa(own.FSGroup),
		"--memory", c.Resources.Limits.Memory, "--memory-swap", c.Resources.Limits.Memory, "--cpus", c.Resources.Limits.CPU,
		"--stop-timeout", strconv.Itoa(p.TerminationGracePeriodSeconds),
	}
	if own.SeccompProfile.Type != "RuntimeDefault" { // without a flag, the engine uses its default profile
		t.Errorf("the seccomp profile is of type %q", own.SeccompProfile.Type)
	}
	if c.SecurityContext.ReadOnlyRootFilesystem {
		flags = append(flags, "--read-only")
	}
	if allow := c.SecurityContext.AllowPrivilegeEscalation; allow != nil && !*allow {
		flags = append(flags, "--security-opt", "no-new-privileges")
	}
	for _, name := range c.SecurityContext.Capabilities.Drop {
		flags = append(flags, "--cap-drop", name)
	}
	for _, name := range c.SecurityContext.Capabilities.Add {
		flags = append(flags, "--cap-add", name)
	}
	for _, env := range c.Env {
		if env.Name == "DESKHAND_TOKEN" {
			flags = append(flags, "--env", env.Name+"="+token)
		}
	}
	for _, mount := range c.VolumeMounts {
		flags = append(flags, "--mount", p.volume(t, e, mount.Name)+",dst="+mount.MountPath)
	}
	return flags
}

// volume makes an empty volume with the owner, group and mode that the kubelet gives it, and returns the words of
// --mount for it.
func (p *pod) volume(t *testing.T, e *engine, name string) string {
	t.Helper()
	mode := "0755" // a fresh file system, of a claim
	for _, v := range p.Volumes {
		if v.Name == name && v.EmptyDir != nil {
			mode = "0777"
		}
	}
	volume := e.run(t, "volume", "create", fmt.Sprintf("deskhand-test-%d", time.Now().UnixNano()))
	t.Cleanup(func() { _, _ = e.try("volume", "rm", "-f", volume) })
	mount := "type=volume,volume-nocopy,src=" + volume
	e.run(t, "run", "--rm", "--network", "none", "--user", "0:0", "--mount", mount+",dst=/mnt", "--entrypoint", "sh", imagePrefix+"desktop",
		"-c", fmt.Sprintf("chmod %s /mnt && chown 0:%d /mnt && chmod g+rwxs /mnt", mode, p.SecurityContext.FSGroup))
	return mount
}

// runPods runs containers with the settings of the pods in deploy/kubernetes.
func runPods(t *testing.T, e *engine) {
	t.Helper()
	for _, name := range []string{"deskhand.yaml", "overlays/one", "agent-sandbox"} {
		row(t, "settings of deploy/kubernetes, "+name, func(t *testing.T) string {
			p := decodePod(t, name)
			b := e.start(t, "desktop", p.flags(t, e), p.Containers[0].Args...)
			b.grace = time.Duration(p.TerminationGracePeriodSeconds) * time.Second
			b.call(t, http.MethodPost, "/v1/sessions/mine", `{"agent":"mock","directory":"/tmp"}`)
			b.call(t, http.MethodPost, "/v1/sessions/mine/messages", `{"message":"hello"}`)
			got := b.shell(t, `id -u; id -g; id -G; stat -c '%u:%g %a' ~ /tmp; awk '/^(CapEff|CapBnd|NoNewPrivs|Seccomp):/ { print $1 $2 }' /proc/self/status; touch /usr/probe 2>&1 | grep -o Read-only`)
			want := "1000\n0\n0 1000\n0:1000 2775\n0:1000 2777\nCapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\nSeccomp:2\nRead-only"
			if name == "agent-sandbox" {
				want = strings.Replace(want, "2775", "2777", 1)
			}
			if got != want {
				t.Errorf("in the container:\n%s\nwant:\n%s", got, want)
			}
			b.use(t, true)
			return fmt.Sprintf("%s of memory", p.Containers[0].Resources.Limits.Memory)
		})
	}
}
