package containertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// runImages runs containers of what was built.
func runImages(t *testing.T) {
	t.Helper()
	client, err := findClient()
	if err != nil {
		t.Fatal(err)
	}
	e, inside := &engine{client: client}, []string(nil)
	outside := "127.0.0.1"
	if dir := os.Getenv(dirVariable); dir != "" {
		// Below /run, where clients look for the engine's socket, nothing of this
		// machine is needed.
		if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		run(t, "ip", "link", "set", "lo", "up")
		if e, _, err = startEngine(t, client, dir, []string{"-H", "unix:///var/run/docker.sock"}, nil); err != nil {
			t.Fatal(err)
		}
		inside, outside = namespace(t, "outside", machineOutside, clientOutside), machineOutside
		// All that a container sends elsewhere goes to the client's network, where
		// nothing answers.
		run(t, "ip", "route", "add", "default", "via", clientOutside)
	}
	watch := func(t *testing.T, b *box, network string) {
		t.Helper()
		_, port, err := net.SplitHostPort(b.at)
		if err != nil {
			t.Fatal(err)
		}
		again(t, "client", []string{wantVariable + "=" + network, atVariable + "=" + net.JoinHostPort(outside, port)}, inside...)
	}
	row(t, "desktop, Chromium, health, docker stop", func(t *testing.T) string {
		useImage(t, e, "desktop")
		return ""
	})
	row(t, "recording as MP4", func(t *testing.T) string {
		b := e.start(t, "desktop", nil)
		b.screenshot(t)
		return b.record(t)
	})
	row(t, "live view in Chromium, by the one TCP port", func(t *testing.T) string {
		var words []string
		if inside == nil { // this machine reaches the container without the published port
			words = []string{"server", "--host", "0.0.0.0", "--token", token, "--media-udp-port", "off"}
		}
		b := e.start(t, "desktop", nil, words...)
		b.screenshot(t)
		watch(t, b, "tcp")
		return ""
	})
	row(t, "live view in Chromium, by the one UDP port", func(t *testing.T) string {
		b := e.start(t, "desktop", []string{"-p", "2468", "-p", "59050:59050/udp"})
		b.screenshot(t)
		watch(t, b, "udp")
		return ""
	})
	runUsers(t, e)
	runLimits(t, e)
	runAgents(t, e)
	runPods(t, e)
	if inside != nil { // the fleet's ports could be taken on this machine
		row(t, "the fleet of deploy/compose, with docker-compose", func(t *testing.T) string { return runFleet(t, e, inside) })
	}
	runSpeed(t, e)
}

// useImage starts a container and uses what it must have.
func useImage(t *testing.T, e *engine, image string, flags ...string) {
	t.Helper()
	e.start(t, image, flags).use(t, image != "slim")
}

// runUsers runs containers as other users, with other file systems and rights.
func runUsers(t *testing.T, e *engine) {
	t.Helper()
	for _, tt := range []struct{ name, image, flags string }{
		{"slim", "slim", ""},
		{"full", "full", ""},
		{"uid 12345 of group 0", "desktop", "--user 12345:0"},
		{"uid 12345 of group 12345, no name", "desktop", "--user 12345:12345"},
		{"the same with HOME=/", "desktop", "--user 12345:12345 -e HOME=/"},
		{"root", "desktop", "--user 0:0"},
		{"read-only, /tmp in memory", "desktop", "--read-only --tmpfs /tmp"},
		{"read-only, /tmp and home in memory, noexec", "desktop", "--read-only --tmpfs /tmp --tmpfs /home/sandbox:uid=1000,gid=0,mode=0770"},
		{"no capability, no new privileges", "desktop", "--cap-drop ALL --security-opt no-new-privileges"},
		{"512 MB, 64 MB of shared memory", "desktop", "--memory 512m --memory-swap 512m --shm-size 64m"},
		{"all of it, uid 12345", "desktop", "--user 12345:0 --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --memory 512m --pids-limit 400"},
	} {
		row(t, tt.name, func(t *testing.T) string {
			useImage(t, e, tt.image, strings.Fields(tt.flags)...)
			return ""
		})
	}
	row(t, "no passwd entry: dbus, Node's os.userInfo", func(t *testing.T) string {
		b := e.start(t, "desktop", []string{"--user", "12345:12345"})
		b.screenshot(t)
		if got := b.shell(t, `node -p 'os.userInfo().username' && git config --global user.name me && git config user.name`); got != "user12345\nme" {
			t.Errorf("Node and git say %q", got)
		}
		return ""
	})
	row(t, "contents: SBOM, licences, link, labels, user", func(t *testing.T) string {
		figure := ""
		for _, image := range []string{"slim", "desktop", "full"} {
			figure += checkContents(t, e, image)
		}
		return strings.TrimSuffix(figure, ", ")
	})
	row(t, "another port, and the container's health", func(t *testing.T) string {
		b := e.start(t, "desktop", []string{"--health-interval", "500ms", "--health-retries", "1", "--health-timeout", "3s", "-p", "3000"}, "server", "--host", "0.0.0.0", "--port", "3000", "--token", token)
		becomes := func(want string) {
			t.Helper()
			poll(t, callLimit, "the container is "+want, func() (bool, string) {
				got := e.run(t, "inspect", "--format", "{{.State.Health.Status}}", b.name)
				return got == want, got
			})
		}
		becomes("healthy")
		e.run(t, "kill", "-s", "STOP", b.name)
		becomes("unhealthy")
		e.run(t, "kill", "-s", "CONT", b.name)
		becomes("healthy")
		return ""
	})
	for _, tt := range []struct{ name, at, flags string }{
		{"volume on the home", "/home/sandbox", ""},
		{"volume on .local/state/deskhand", "/home/sandbox/.local/state/deskhand", ""},
		{"the same, read-only beside it", "/home/sandbox/.local/state/deskhand", "--read-only --tmpfs /tmp"},
	} {
		row(t, tt.name+", restart, kill -9, another container", func(t *testing.T) string {
			keepState(t, e, tt.at, strings.Fields(tt.flags)...)
			return ""
		})
	}
}

// checkContents looks at what an image says of itself, and returns how much its
// SBOM lists.
func checkContents(t *testing.T, e *engine, image string) string {
	t.Helper()
	var config struct {
		User   string
		Labels map[string]string
	}
	if err := json.Unmarshal([]byte(e.run(t, "inspect", "--format", "{{json .Config}}", imagePrefix+image)), &config); err != nil {
		t.Fatal(err)
	}
	if config.User != "1000:0" || config.Labels["org.opencontainers.image.version"] != "v0.0.0-test" || config.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("%s: %+v", image, config)
	}
	in := func(script string) string {
		return e.run(t, "run", "--rm", "--network", "none", "--entrypoint", "sh", imagePrefix+image, "-c", script)
	}
	if got := in("sandbox-agent --version; ls /usr/local/share/doc/deskhand; stat -c '%a %u %g' ~ ~/.local/state/deskhand"); got !=
		"deskhand v0.0.0-test\nLICENSE\nTHIRD_PARTY_NOTICES\nsbom.cdx.json\n770 1000 0\n700 1000 0" {
		t.Errorf("%s: %s", image, got)
	}
	var sbom struct{ Components []struct{ PURL string } }
	if err := json.Unmarshal([]byte(in("cat /usr/local/share/doc/deskhand/sbom.cdx.json")), &sbom); err != nil {
		t.Fatal(err)
	}
	wanted := map[string][]string{
		"slim":    {"pkg:deb/debian/xvfb@", "pkg:golang/github.com/pion/webrtc/v4@", "pkg:golang/stdlib@"},
		"desktop": {"pkg:deb/debian/chromium@", "pkg:deb/debian/ffmpeg@", "pkg:npm/npm@", "pkg:generic/node@v2"},
		"full":    {"pkg:npm/%40agentclientprotocol/claude-agent-acp@", "pkg:npm/%40openai/codex"},
	}[image]
	for _, want := range wanted {
		if !slices.ContainsFunc(sbom.Components, func(c struct{ PURL string }) bool { return strings.HasPrefix(c.PURL, want) }) {
			t.Errorf("%s: the SBOM does not list %s", image, want)
		}
	}
	// What dpkg knows and what the SBOM lists are the same.
	debian := 0
	for _, c := range sbom.Components {
		if strings.HasPrefix(c.PURL, "pkg:deb/") {
			debian++
		}
	}
	if got := in("dpkg-query -W | wc -l"); got != strconv.Itoa(debian) {
		t.Errorf("%s: the SBOM lists %d Debian packages, dpkg %s", image, debian, got)
	}
	return fmt.Sprintf("%s %d components, ", image, len(sbom.Components))
}

// keepState wants a session to be there after the container, or its server, has
// ended in any way.
func keepState(t *testing.T, e *engine, at string, flags ...string) {
	t.Helper()
	volume := fmt.Sprintf("deskhand-test-%d", time.Now().UnixNano())
	defer func() { _, _ = e.try("volume", "rm", "-f", volume) }()
	flags = append(flags, "-v", volume+":"+at)
	b := e.start(t, "desktop", flags)
	b.screenshot(t)
	b.call(t, http.MethodPost, "/v1/sessions/kept", `{"agent":"mock","directory":"/tmp"}`)
	b.call(t, http.MethodPost, "/v1/sessions/kept/messages", `{"message":"hello"}`)
	check := func(when string) {
		t.Helper()
		b.waitReady(t)
		b.screenshot(t)
		if list := b.call(t, http.MethodGet, "/v1/sessions", ""); !strings.Contains(string(list), `"kept"`) {
			t.Fatalf("%s: the session is gone: %s", when, list)
		}
		b.call(t, http.MethodPost, "/v1/sessions/kept/messages", `{"message":"again"}`)
	}
	e.run(t, "restart", b.name)
	check("after a restart")
	e.run(t, "kill", "-s", "KILL", b.name)
	e.run(t, "start", b.name)
	check("after kill -9")
	e.run(t, "rm", "-f", b.name)
	b = e.start(t, "desktop", flags)
	check("in another container")
	b.end(t)
}

// record records the desktop while it changes, and looks at the video.
func (b *box) record(t *testing.T) string {
	t.Helper()
	b.call(t, http.MethodPost, "/v1/desktop/recording/start", `{"fps":30}`)
	b.call(t, http.MethodPost, "/v1/desktop/launch", `{"app":"xterm","wait":true}`)
	b.call(t, http.MethodPost, "/v1/desktop/keyboard/type", `{"text":"for i in 1 2 3 4 5 6 7 8 9; do ls -l /usr/bin | tail -n $i; done\n"}`)
	b.call(t, http.MethodGet, "/v1/desktop/screenshot?settleMs=300&timeoutMs=5000", "")
	var recording struct{ ID string }
	b.ask(t, http.MethodPost, "/v1/desktop/recording/stop", "", &recording)
	file := filepath.Join(t.TempDir(), "video.mp4")
	if err := os.WriteFile(file, b.call(t, http.MethodGet, "/v1/desktop/recordings/"+recording.ID+"/download", ""), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height,nb_frames:format=format_name", "-of", "csv=p=0", file).CombinedOutput()
	text := strings.Join(strings.Fields(string(out)), " ")
	if err != nil || !strings.Contains(text, "h264,1440,900") || !strings.Contains(text, "mp4") {
		t.Errorf("ffprobe: %v: %s", err, out)
	}
	return text
}

// runLimits fills a container with processes, and uses its commands.
func runLimits(t *testing.T, e *engine) {
	t.Helper()
	row(t, "a full limit of processes fails the call only", func(t *testing.T) string {
		b := e.start(t, "desktop", []string{"--pids-limit", "100"})
		b.screenshot(t)
		refused := 0
		for n := 0; refused < 20; n++ {
			status, answer, err := b.request(http.MethodPost, "/v1/processes", `{"command":"sleep","args":["3600"]}`)
			switch {
			case err != nil:
				t.Fatalf("after %d processes: %v", n, err)
			case status == http.StatusServiceUnavailable:
				refused++
			case status > 299 || n > 200:
				t.Fatalf("after %d processes: %d: %s", n, status, answer)
			}
		}
		if status, answer, err := b.request(http.MethodGet, "/v1/desktop/screenshot", ""); err != nil || status != http.StatusOK {
			t.Fatalf("screenshot: %d, %v: %.200s", status, err, answer)
		}
		var list struct{ Processes []struct{ ID string } }
		b.ask(t, http.MethodGet, "/v1/processes", "", &list)
		for _, p := range list.Processes {
			b.call(t, http.MethodPost, "/v1/processes/"+p.ID+"/kill", "")
		}
		poll(t, callLimit, "processes can be started again", func() (bool, string) {
			status, answer, err := b.request(http.MethodPost, "/v1/processes/run", `{"command":"true"}`)
			return err == nil && status == http.StatusOK, fmt.Sprintf("%d, %v: %s", status, err, answer)
		})
		b.end(t)
		return fmt.Sprintf("%d processes fit", len(list.Processes))
	})
	row(t, "terminal", func(t *testing.T) string {
		b := e.start(t, "desktop", nil)
		var p struct{ ID string }
		b.ask(t, http.MethodPost, "/v1/processes", `{"command":"bash","tty":true}`, &p)
		ctx, cancel := context.WithTimeout(t.Context(), callLimit)
		defer cancel()

		ws, _, err := websocket.Dial(ctx, "ws://"+b.at+"/v1/processes/"+p.ID+"/terminal/ws?access_token="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.CloseNow()
		if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"input","data":"echo $((6*7))-$(tty)\n"}`)); err != nil {
			t.Fatal(err)
		}
		for text := ""; !strings.Contains(text, "42-/dev/pts/"); {
			_, data, err := ws.Read(ctx)
			if err != nil {
				t.Fatalf("%v after %q", err, text)
			}
			text += string(data)
		}
		return ""
	})
	row(t, "README: docker run, and its session", func(t *testing.T) string {
		b := e.start(t, "desktop", []string{"-p", "127.0.0.1:2468:2468"}, strings.Fields(readmeCommand(t))...)
		url := regexp.MustCompile(`http://\S+/\?token=\S+`).FindString(e.output(b))
		test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^TestReadmeConsole$", "../..")
		test.Env = append(os.Environ(), "DESKHAND_TEST_SERVER="+url)
		if out, err := test.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") || strings.Contains(string(out), "no tests") {
			t.Errorf("%s: %v\n%s", url, err, out)
		}
		return ""
	})
}

// readmeCommand is what README.md gives to the container of its first command.
func readmeCommand(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`docker run --rm -p 2468:2468 deskhand (.*)\n`).FindSubmatch(text)
	if m == nil {
		t.Fatal("README.md has no docker run")
	}
	return string(m[1])
}

// runAgents asks agents, and uses the image through the published SDK.
func runAgents(t *testing.T, e *engine) {
	t.Helper()
	row(t, "mock agent", func(t *testing.T) string {
		b := e.start(t, "desktop", nil)
		b.call(t, http.MethodPost, "/v1/sessions/mine", `{"agent":"mock","directory":"/tmp"}`)
		stream := b.call(t, http.MethodPost, "/v1/sessions/mine/messages/stream", `{"message":"hello"}`)
		if !strings.Contains(string(stream), "item.completed") {
			t.Errorf("the stream is %s", stream)
		}
		return ""
	})
	for _, image := range []string{"desktop", "full"} {
		row(t, "agents of "+image+", with a volume on the home", func(t *testing.T) string {
			volume := fmt.Sprintf("deskhand-test-%d", time.Now().UnixNano())
			defer func() { _, _ = e.try("volume", "rm", "-f", volume) }()
			b := e.start(t, image, []string{"-v", volume + ":/home/sandbox"})
			var list struct {
				Agents []struct {
					ID        string
					Installed bool
				}
			}
			b.ask(t, http.MethodGet, "/v1/agents", "", &list)
			var installed []string
			for _, a := range list.Agents {
				if a.Installed && a.ID != "mock" {
					installed = append(installed, a.ID)
				}
			}
			want := map[string]string{"desktop": "", "full": "claude codex opencode pi"}[image]
			slices.Sort(installed)
			if got := strings.Join(installed, " "); got != want {
				t.Errorf("installed are %q, want %q", got, want)
			}
			figure := ""
			for _, agent := range installed {
				figure += " " + initialize(t, b, agent)
			}
			b.end(t)
			return strings.TrimSpace(figure)
		})
	}
	row(t, fmt.Sprintf("docker() of the SDK, %d fresh programs", freshPrograms), func(t *testing.T) string {
		testx11.Require(t, "node")
		if _, err := os.Stat("/var/run/docker.sock"); err != nil {
			t.Skip("the SDK asks the engine at /var/run/docker.sock, where none is")
		}
		modules, err := sdktest.Install(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		script, err := filepath.Abs("testdata/docker.mjs")
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		longest := time.Duration(0)
		for n := range freshPrograms {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), callLimit)
			cmd := exec.CommandContext(ctx, "node", script, modules, imagePrefix+"desktop")
			out, err := cmd.CombinedOutput()
			cancel()
			if err != nil {
				failed = append(failed, fmt.Sprintf("%d: %v: %s", n, err, out))
			}
			longest = max(longest, time.Since(begun))
		}
		if len(failed) > 0 {
			t.Errorf("%d of %d failed:\n%s", len(failed), freshPrograms, strings.Join(failed, "\n"))
		}
		return fmt.Sprintf("%d of %d, the longest %.1f s", freshPrograms-len(failed), freshPrograms, longest.Seconds())
	})
}

// initialize has an agent answer its first request, and returns its name and
// version.
func initialize(t *testing.T, b *box, agent string) string {
	t.Helper()
	var answer struct {
		Result struct {
			AgentInfo struct{ Version string }
		}
		Error json.RawMessage
	}
	b.ask(t, http.MethodPost, "/v1/acp/"+agent+"?agent="+agent,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`, &answer)
	if answer.Error != nil {
		t.Errorf("%s: %s", agent, answer.Error)
	}
	b.call(t, http.MethodDelete, "/v1/acp/"+agent, "")
	return strings.TrimSpace(agent + " " + answer.Result.AgentInfo.Version)
}

// runSpeed measures.
func runSpeed(t *testing.T, e *engine) {
	t.Helper()
	row(t, "docker run to the first screenshot, the median of 5", func(t *testing.T) string {
		var times []time.Duration
		busy := load(t)
		for range 5 {
			begun := time.Now()
			b := e.start(t, "desktop", nil)
			b.screenshot(t)
			times = append(times, time.Since(begun))
			b.end(t)
		}
		slices.Sort(times)
		return judge(t, busy, times[2], firstMost)
	})
	row(t, "memory of the server with an idle desktop", func(t *testing.T) string {
		b := e.start(t, "desktop", nil)
		b.screenshot(t)
		var resident int
		line := regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
		poll(t, idleLimit, "the server is small", func() (bool, string) {
			m := line.FindStringSubmatch(e.run(t, "exec", b.name, "cat", "/proc/1/status"))
			if m == nil {
				return false, "no VmRSS in the server's status"
			}
			kib, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			resident = kib << 10
			return resident <= residentMost, fmt.Sprintf("%d bytes, want at most %d", resident, residentMost)
		})
		return fmt.Sprintf("%.1f MB, with the program file", float64(resident)/1e6)
	})
}

// runImageClient opens the page, from another network.
func runImageClient(t *testing.T) {
	t.Helper()
	host, network := os.Getenv(atVariable), os.Getenv(wantVariable)
	t.Run("page", func(t *testing.T) {
		if token := os.Getenv(fleetVariable); token != "" {
			watchFleet(t, host, token)
			return
		}
		begun := time.Now()
		page := testbrowser.Open(t, "http://"+host+"/ui/?token="+token)
		testbrowser.Holds(page, t, `[...document.querySelectorAll("video")].some((v) => v.videoWidth === 1440)`)
		t.Logf("a picture after %v", time.Since(begun).Round(time.Millisecond))
		waitVerdict(t, host, network)
	})
}
