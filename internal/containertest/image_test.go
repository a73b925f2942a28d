package containertest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

// TestImage builds all targets of the Dockerfile and uses them. It takes 40 minutes:
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
	for _, program := range []string{"dockerd", "debootstrap", "iptables", "ip", "unshare", "npm", "docker-compose"} {
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
	begun, result, figure := time.Now(), "", ""
	ok := t.Run(name, func(t *testing.T) {
		result = "ok"
		defer func() {
			if t.Skipped() {
				result = "skipped"
			}
		}()
		figure = f(t)
	})
	switch {
	case !ok:
		result = "FAILED"
	case result == "": // -run does not name it
		return
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
	decodePod(t, "deskhand.yaml") // fetches the types of Kubernetes
	row(t, "build desktop, the default", func(t *testing.T) string {
		busy, begun := load(t), time.Now()
		e.build(t, append(args, "-t", imagePrefix+"desktop")...)
		return judge(t, busy, time.Since(begun), buildMost)
	})
	if e.own {
		row(t, "images of the fleet, of Debian's packages", func(t *testing.T) string {
			buildFleet(t, e, args)
			return ""
		})
	}
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
