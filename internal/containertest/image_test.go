package containertest

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/sdktest"
)

const (
	allVariable   = "DESKHAND_IMAGES"     // set by make test-image
	dirVariable   = "DESKHAND_TEST_DIR"   // what the engine keeps; empty: it is not the test's own
	tableVariable = "DESKHAND_TEST_TABLE" // the file with the rows
	atVariable    = "DESKHAND_TEST_AT"    // host:port, for the client
)

// The images, and what make test-image holds them to.
const (
	imagePrefix   = "deskhand-test:"
	slimMost      = 130_000_000 // compressed
	buildMost     = 4 * time.Minute
	firstMost     = 1500 * time.Millisecond // from docker run to the first screenshot
	residentMost  = 41_000_000              // bytes of the server, with an idle desktop
	idleLimit     = time.Minute             // until the server has given back what the start needed
	freshPrograms = 20
)

// TestImage builds all targets of the Dockerfile and uses them. It takes half an hour:
// make test-image sets DESKHAND_IMAGES.
func TestImage(t *testing.T) {
	switch os.Getenv(stageVariable) {
	case "engine":
		runImages(t)
		return
	case "client":
		runImageClient(t)
		return
	}
	if os.Getenv(allVariable) == "" {
		t.Skip("make test-image runs it")
	}
	client, err := findClient()
	if err != nil {
		t.Skipf("no image can be built here: %v", err)
	}
	table := filepath.Join(t.TempDir(), "table")
	t.Setenv(tableVariable, table)
	defer func() {
		text, _ := os.ReadFile(table)
		fmt.Printf("%s", text) // without -v as well
	}()
	if e := runningEngine(client); e != nil {
		defer func() {
			for _, name := range []string{"binaries", "slim", "desktop", "full"} {
				_, _ = e.try("rmi", imagePrefix+name) // some of them are not built
			}
		}()
		buildImages(t, e)
		if !t.Failed() {
			again(t, "engine", nil)
		}
		return
	}
	for _, program := range []string{"dockerd", "debootstrap", "iptables", "ip", "unshare", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no image can be built here: %s is missing, and no container engine runs", program)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("no image can be built here: no container engine runs, and only root can start one")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", "-n", "sh", "-ec", networks).CombinedOutput(); err != nil {
		t.Skipf("no containers can have networks here: %v: %s", err, out)
	}
	// To build, the engine uses this machine's network, without anything of its own.
	e, stop, err := startEngine(t, client, dir, []string{"--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"}, namespaces)
	if err != nil {
		t.Skipf("no image can be built here: %v", err)
	}
	buildImages(t, e)
	stop()
	if !t.Failed() {
		// To run containers, it has networks that end with it.
		again(t, "engine", []string{dirVariable + "=" + dir}, append(slices.Clone(namespaces), "-n")...)
	}
}

// networks makes what containers need.
const networks = `ip link add name box type bridge
ip link add name near type veth peer name far
iptables -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o box -j MASQUERADE
iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j ACCEPT`

// namespaces are words that run a command whose processes and mounts end with it.
var namespaces = []string{"unshare", "-mp", "--fork", "--kill-child", "--mount-proc"}

// row runs a part of the test, and writes its line of the table. What it returns
// is added to the line.
func row(t *testing.T, name string, f func(t *testing.T) string) {
	t.Helper()
	begun, result, figure := time.Now(), "ok", ""
	ok := t.Run(name, func(t *testing.T) {
		defer func() {
			if t.Skipped() {
				result = "skipped"
			}
		}()
		figure = f(t)
	})
	if !ok {
		result = "FAILED"
	}
	line := fmt.Sprintf("%-58s %-7s %6.1f s  %s\n", name, result, time.Since(begun).Seconds(), figure)
	file, err := os.OpenFile(os.Getenv(tableVariable), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line); err != nil {
		t.Fatal(err)
	}
}

// buildImages builds what is used later.
func buildImages(t *testing.T, e *engine) {
	t.Helper()
	var args []string
	row(t, "base images, by debootstrap and npm", func(t *testing.T) string {
		var err error
		if args, err = e.baseImages(t); err != nil {
			t.Fatal(err)
		}
		return ""
	})
	if t.Failed() {
		return
	}
	args = append(args, "--build-arg", "VERSION=v0.0.0-test")
	// Containers run where no registry is reached.
	if _, err := sdktest.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	row(t, "build desktop, the default", func(t *testing.T) string {
		busy, begun := load(t), time.Now()
		e.build(t, append(args, "-t", imagePrefix+"desktop")...)
		return judge(t, busy, time.Since(begun), buildMost)
	})
	for _, target := range []string{"slim", "full"} {
		row(t, "build "+target, func(t *testing.T) string {
			e.build(t, append(args, "-t", imagePrefix+target, "--target", target)...)
			return ""
		})
	}
	for _, target := range []string{"slim", "desktop", "full"} {
		row(t, "size of "+target, func(t *testing.T) string {
			n := e.size(t, imagePrefix+target)
			if target == "slim" && n > slimMost {
				t.Errorf("%d bytes compressed, want at most %d", n, slimMost)
			}
			disk, err := strconv.Atoi(e.run(t, "inspect", "--format", "{{.Size}}", imagePrefix+target))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%d MB compressed, %d MB on disk", n/1e6, disk/1e6)
		})
	}
	for _, arch := range []string{"amd64", "arm64"} {
		row(t, "cross-build of the binaries for "+arch, func(t *testing.T) string {
			dir := t.TempDir()
			e.build(t, append(args, "--platform", "linux/"+arch, "--target", "compiled", "--output", "type=local,dest="+dir)...)
			file, err := elf.Open(filepath.Join(dir, "out/root/usr/local/bin/deskhand"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; file.Machine != want {
				t.Errorf("the binary is for %v, want %v", file.Machine, want)
			}
			return ""
		})
	}
}

// load is how many programs want a processor, for each of them.
func load(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	var mean float64
	if _, err := fmt.Sscan(string(text), &mean); err != nil {
		t.Fatal(err)
	}
	return mean / float64(runtime.NumCPU())
}

// judge fails the test if something took too long on a machine that had nothing
// else to do, and returns what to note of it.
func judge(t *testing.T, busy float64, took, most time.Duration) string {
	t.Helper()
	text := fmt.Sprintf("%.2f s, want at most %v", took.Seconds(), most)
	if busy > 1 {
		return text + fmt.Sprintf("; not judged, as %.1f programs wanted each processor", busy)
	}
	if took > most {
		t.Error(text)
	}
	return text
}

// box is a container of an image.
type box struct {
	e    *engine
	name string
	at   string // host:port of the API
}

// start starts a container. Without words, its server takes this test's token.
func (e *engine) start(t *testing.T, image string, flags []string, words ...string) *box {
	t.Helper()
	if len(words) == 0 {
		words = []string{"server", "--host", "0.0.0.0", "--token", token}
	}
	b := &box{e: e, name: fmt.Sprintf("deskhand-test-%d", time.Now().UnixNano())}
	args := append([]string{"run", "-d", "--name", b.name}, flags...)
	if !slices.Contains(flags, "-p") {
		args = append(args, "-p", "2468")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := e.command(context.Background(), "logs", b.name).CombinedOutput()
			t.Logf("the container said (%v):\n%s", err, out)
		}
		_, _ = e.try("rm", "-f", "-v", b.name)
	})
	e.run(t, append(append(args, imagePrefix+image), words...)...)
	b.waitReady(t)
	return b
}

// waitReady waits for the server, whose published port may be another one after a
// restart.
func (b *box) waitReady(t *testing.T) {
	t.Helper()
	poll(t, startLimit, "the server is ready", func() (bool, string) {
		ports, err := b.e.try("inspect", "--format", `{{range $p, $l := .NetworkSettings.Ports}}{{range $l}}{{$p}} {{.HostPort}}{{"\n"}}{{end}}{{end}}`, b.name)
		if err != nil {
			return false, err.Error()
		}
		for line := range strings.Lines(ports) {
			if inside, outside, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasSuffix(inside, "/tcp") {
				b.at = net.JoinHostPort("127.0.0.1", outside)
			}
		}
		if b.at == "" {
			return false, "no port is published: " + ports + b.e.output(b)
		}
		status, _, err := b.request(http.MethodGet, "/livez", "")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, err)
	})
}

// output is what a container has printed.
func (e *engine) output(b *box) string {
	out, _ := e.command(context.Background(), "logs", b.name).CombinedOutput()
	return string(out)
}

// request asks the server.
func (b *box) request(method, path, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequest(method, "http://"+b.at+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callLimit}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// call is request for what must succeed.
func (b *box) call(t *testing.T, method, path, body string) []byte {
	t.Helper()
	status, answer, err := b.request(method, path, body)
	if err != nil || status < 200 || status > 299 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
	}
	return answer
}

// ask is call for an answer in JSON.
func (b *box) ask(t *testing.T, method, path, body string, result any) {
	t.Helper()
	answer := b.call(t, method, path, body)
	if err := json.Unmarshal(answer, result); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
}

// shell runs a script in the container through the API.
func (b *box) shell(t *testing.T, script string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"command": "sh", "args": []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ExitCode       int
		Stdout, Stderr string
	}
	if b.ask(t, http.MethodPost, "/v1/processes/run", string(body), &got); got.ExitCode != 0 {
		t.Fatalf("%s: exit status %d: %s%s", script, got.ExitCode, got.Stdout, got.Stderr)
	}
	return strings.TrimSpace(got.Stdout)
}

// screenshot wants a picture of the desktop, and starts one if there is none.
func (b *box) screenshot(t *testing.T) {
	t.Helper()
	b.call(t, http.MethodPost, "/v1/desktop/start", `{}`)
	img, err := png.Decode(bytes.NewReader(b.call(t, http.MethodGet, "/v1/desktop/screenshot", "")))
	if err != nil || img.Bounds().Dx() != 1440 || img.Bounds().Dy() != 900 {
		t.Fatalf("screenshot: %v", err)
	}
}

// browse wants a page in Chromium.
func (b *box) browse(t *testing.T) {
	t.Helper()
	b.call(t, http.MethodPost, "/v1/desktop/launch", `{"app":"chromium","args":["--no-first-run","data:text/html,<title>container page</title>"],"wait":true}`)
	poll(t, callLimit, "Chromium shows the page", func() (bool, string) {
		list := b.call(t, http.MethodGet, "/v1/desktop/windows", "")
		return bytes.Contains(list, []byte("container page")), string(list)
	})
}

// healthy wants the container's own check to succeed.
func (b *box) healthy(t *testing.T) {
	t.Helper()
	if out := b.e.run(t, "exec", b.name, "deskhand", "health"); out != "ok" {
		t.Errorf("deskhand health says %q", out)
	}
}

// end stops the container, which must take seconds and end in order.
func (b *box) end(t *testing.T) {
	t.Helper()
	begun := time.Now()
	b.e.run(t, "stop", b.name)
	if took := time.Since(begun); took > stopLimit {
		t.Errorf("docker stop took %v, want at most %v", took, stopLimit)
	}
	if code := b.e.run(t, "inspect", "--format", "{{.State.ExitCode}}", b.name); code != "0" {
		t.Errorf("exit status %s after docker stop", code)
	}
}
