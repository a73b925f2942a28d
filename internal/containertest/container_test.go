package containertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	startLimit = 20 * time.Second // for the server to answer, on a busy machine
	callLimit  = 30 * time.Second
	stopLimit  = 5 * time.Second // from TERM to the end
)

func TestContainer(t *testing.T) {
	testx11.Require(t, "bwrap", "Xvfb", "openbox", "dbus-daemon", "chromium", "pulseaudio", "paplay")
	binary := buildServer(t)
	for _, uid := range []int{1000, 0} {
		t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) {
			t.Parallel()
			c := startContainer(t, binary, uid)
			c.post(t, "/v1/desktop/start", `{}`, nil)
			checkBrowser(t, c)
			checkScreenshot(t, c)
			checkSound(t, c)
			checkReaping(t, c)
			checkStop(t, c)
		})
	}
}

// container is a server that is process 1 of its own namespaces.
type container struct {
	url    string
	init   int // process 1, by the number it has out here
	stdout *testlog.Buffer
	stderr *testlog.Buffer
	cmd    *exec.Cmd
	done   chan struct{} // closed when the server has ended
	err    error         // what it ended with; read after done
	client *http.Client
}

func buildServer(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "deskhand")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "github.com/deskhand/deskhand/cmd/deskhand")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return binary
}

// sandbox is a command line for bwrap that runs command the way a container
// engine would.
func sandbox(uid int, binds []string, command ...string) *exec.Cmd {
	id := strconv.Itoa(uid)
	args := []string{
		"--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--die-with-parent",
		"--uid", id, "--gid", id, "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev",
		"--perms", "1777", "--size", strconv.Itoa(64 << 20), "--tmpfs", "/dev/shm",
		"--perms", "1777", "--tmpfs", "/tmp", "--chdir", "/",
	}
	args = append(args, binds...)
	return exec.Command("bwrap", append(args, command...)...)
}

func startContainer(t *testing.T, binary string, uid int) *container {
	t.Helper()
	if out, err := sandbox(uid, nil, "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces can be made here: bwrap: %v: %s", err, out)
	}
	info, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	c := &container{
		stdout: new(testlog.Buffer), stderr: new(testlog.Buffer), done: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{}, Timeout: callLimit},
	}
	c.cmd = sandbox(uid, []string{"--info-fd", "3", "--ro-bind", binary, "/deskhand"}, "/deskhand", "server", "--port", "0", "--no-token", "--access-log")
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.ExtraFiles = c.stdout, c.stderr, []*os.File{w}
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		c.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", c.stdout, c.stderr)
		}
	})
	var told struct {
		Init int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&told); err != nil {
		t.Fatalf("bwrap tells no process id: %v", err)
	}
	c.init = told.Init
	c.waitReady(t)
	return c
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

func (c *container) waitReady(t *testing.T) {
	t.Helper()
	poll(t, startLimit, "the server is ready", func() (bool, string) {
		select {
		case <-c.done:
			t.Fatalf("the server ended: %v", c.err)
		default:
		}
		if c.url = address.FindString(c.stdout.String() + c.stderr.String()); c.url == "" {
			return false, "it has printed no address"
		}
		resp, err := c.client.Get(c.url + "/livez")
		if err != nil {
			return false, err.Error()
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK, "/livez answers " + resp.Status
	})
	poll(t, callLimit, "the request is in the log, which is stderr", func() (bool, string) {
		return strings.Contains(c.stderr.String(), "/livez"), "stderr is: " + c.stderr.String()
	})
}

// post sends a JSON body and decodes the answer into result, if that is given.
func (c *container) post(t *testing.T, path, body string, result any) {
	t.Helper()
	resp, err := c.client.Post(c.url+path, "application/json", strings.NewReader(body))
	decode(t, path, resp, err, result)
}

func (c *container) get(t *testing.T, path string, result any) {
	t.Helper()
	resp, err := c.client.Get(c.url + path)
	decode(t, path, resp, err, result)
}

func decode(t *testing.T, path string, resp *http.Response, err error, result any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", path, resp.Status, &text)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(text.Bytes(), result); err != nil {
		t.Fatalf("%s: %v: %s", path, err, &text)
	}
}

// checkBrowser wants Chromium to come up from a plain launch: it cannot use
// its own sandbox here, which is the desktop's affair to find out.
func checkBrowser(t *testing.T, c *container) {
	t.Helper()
	var app struct {
		WindowID string `json:"windowId"`
	}
	const page = `data:text/html,<title>container page</title><body bgcolor=%23ff0000>`
	c.post(t, "/v1/desktop/launch", `{"app":"chromium","args":["--no-first-run","`+page+`"],"wait":true}`, &app)
	poll(t, callLimit, "Chromium shows the page", func() (bool, string) {
		var list struct {
			Windows []struct{ ID, Title string } `json:"windows"`
		}
		c.get(t, "/v1/desktop/windows", &list)
		for _, w := range list.Windows {
			if strings.Contains(w.Title, "container page") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("launch answered window %q, listed are %v", app.WindowID, list.Windows)
	})
}

// checkScreenshot wants to see the page: its red in a good part of the screen.
func checkScreenshot(t *testing.T, c *container) {
	t.Helper()
	poll(t, callLimit, "the page is in the picture", func() (bool, string) {
		resp, err := c.client.Get(c.url + "/v1/desktop/screenshot")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		img, err := png.Decode(resp.Body)
		if err != nil {
			t.Fatalf("screenshot: %s: %v", resp.Status, err)
		}
		red, size := 0, img.Bounds()
		for y := range size.Dy() {
			for x := range size.Dx() {
				if r, g, b, _ := img.At(x, y).RGBA(); r == 0xffff && g == 0 && b == 0 {
					red++
				}
			}
		}
		return red > size.Dx()*size.Dy()/5, fmt.Sprintf("%d of %d pixels are red", red, size.Dx()*size.Dy())
	})
}

// checkSound plays silence, and waits until that has been played to its end.
func checkSound(t *testing.T, c *container) {
	t.Helper()
	mark := "3601." + strconv.Itoa(c.init)
	body, err := json.Marshal(map[string]any{
		"app": "sh", "args": []string{"-c", "head -c 40000 /dev/zero | paplay --raw && exec sleep " + mark},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.post(t, "/v1/desktop/launch", string(body), nil)
	poll(t, callLimit, "something was played", func() (bool, string) {
		for _, p := range c.processes(t) {
			if strings.HasPrefix(p.command, "sleep") && strings.Contains(p.command, mark) {
				return true, ""
			}
		}
		var status struct{ Sound map[string]any }
		c.get(t, "/v1/desktop/status", &status)
		return false, fmt.Sprint("the sound is ", status.Sound)
	})
}

// checkReaping orphans programs, so that process 1 inherits them, and ends
// them: nothing of them must stay in the process table.
func checkReaping(t *testing.T, c *container) {
	t.Helper()
	const orphans = 20
	mark := "3600." + strconv.Itoa(c.init) // an argument of sleep that no other process has
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do setsid sleep %s & i=$((i+1)); done", orphans, mark)
	body, err := json.Marshal(map[string]any{"app": "sh", "args": []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	c.post(t, "/v1/desktop/launch", string(body), nil)

	var orphaned []process
	poll(t, callLimit, "the orphans are there", func() (bool, string) {
		orphaned = orphaned[:0]
		for _, p := range c.processes(t) {
			if p.parent == c.init && strings.Contains(p.command, mark) {
				orphaned = append(orphaned, p)
			}
		}
		return len(orphaned) == orphans, fmt.Sprintf("process 1 has inherited %d of %d", len(orphaned), orphans)
	})
	for _, p := range orphaned {
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill orphan %d: %v", p.pid, err)
		}
	}
	poll(t, callLimit, "the orphans are reaped", func() (bool, string) {
		left := []process{}
		for _, p := range c.processes(t) {
			if p.state == "Z" || strings.Contains(p.command, mark) {
				left = append(left, p)
			}
		}
		return len(left) == 0, fmt.Sprintf("left: %+v", left)
	})
}

func checkStop(t *testing.T, c *container) {
	t.Helper()
	began := time.Now()
	if err := syscall.Kill(c.init, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.done:
	case <-time.After(2 * stopLimit):
		t.Fatalf("still running %v after TERM", 2*stopLimit)
	}
	if took := time.Since(began); took > stopLimit {
		t.Errorf("it took %v from TERM to the end, want at most %v", took, stopLimit)
	}
	if c.err != nil {
		t.Errorf("after TERM the server ended with: %v", c.err)
	}
}

// process is a line of the process table.
type process struct {
	pid, parent int
	state       string
	command     string
}

// processes lists what runs in the container, by the numbers that hold here.
func (c *container) processes(t *testing.T) []process {
	t.Helper()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.init))
	if err != nil {
		t.Fatalf("process 1 of the container: %v", err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var list []process
	for _, dir := range dirs {
		ns, err := os.Readlink(dir + "/ns/pid")
		if errors.Is(err, os.ErrNotExist) {
			ns = namespace // a zombie has no namespace any more: look whose child it is
		}
		p, ok := readProcess(dir)
		if ok && ns == namespace && (err == nil || p.parent == c.init) {
			list = append(list, p)
		}
	}
	return list
}

// readProcess reads a folder of /proc; it may have gone meanwhile.
func readProcess(dir string) (process, bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return process{}, false
	}
	// proc(5): "pid (name) state ppid ..."; the name may hold anything.
	_, rest, ok := strings.Cut(string(stat), ") ")
	var p process
	if _, err := fmt.Sscanf(rest, "%s %d", &p.state, &p.parent); err != nil || !ok {
		return process{}, false
	}
	p.pid, err = strconv.Atoi(filepath.Base(dir))
	command, _ := os.ReadFile(dir + "/cmdline")
	p.command = strings.ReplaceAll(string(command), "\x00", " ")
	return p, err == nil
}

// poll asks until the answer is yes, and fails with the last no.
func poll(t *testing.T, limit time.Duration, what string, ask func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		ok, why := ask()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s: %s", limit, what, why)
		}
	}
}
