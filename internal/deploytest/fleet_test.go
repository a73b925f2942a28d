package deploytest

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testpostgres"
	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

// fleetCommand returns the arguments of a server in the compose file of the fleet.
func fleetCommand(t *testing.T, name string) (args []string) {
	t.Helper()
	_, after, found := strings.Cut(repository(t, "deploy/compose/fleet/compose.yaml"), "\n  "+name+":\n")
	if !found {
		t.Fatalf("there is no service %s", name)
	}
	_, after, _ = strings.Cut(after, "    command:\n")
	for line := range strings.Lines(after) {
		arg, ok := strings.CutPrefix(line, "      - ")
		if !ok {
			break
		}
		args = append(args, strings.TrimSpace(arg))
	}
	return args
}

// TestFleet runs the servers of the compose file with their arguments, on a real Postgres and behind
// Caddy with the file of the fleet: clients of the proxy notice little of the end of a server.
func TestFleet(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "caddy")
	dsn := testpostgres.Start(t).DSN()
	const token = "the-token-of-the-fleet-in-tests"
	caddyfile := repository(t, "deploy/compose/fleet/Caddyfile")
	var servers []*server
	var stops []func()
	for _, name := range []string{"deskhand-1", "deskhand-2"} {
		args := slices.DeleteFunc(fleetCommand(t, name), func(arg string) bool {
			return arg == "--log-format=json" || strings.HasPrefix(arg, "--ice-server=") // serve reads text, and there is no TURN server
		})
		port := testspace.Port(t)
		if !slices.Contains(args, "--advertise=http://"+name+":2468") || !slices.Contains(args, "--proxy-sessions") {
			t.Errorf("%s: %v", name, args)
		}
		s, stop := serveUntil(t, "deskhand "+strings.Join(args, " "), "--host", "127.0.0.1", "--port", port, "--token", token, "--database", dsn,
			"--advertise", "http://127.0.0.1:"+port, "--metrics-listen", "127.0.0.1:"+testspace.Port(t))
		servers, stops = append(servers, s), append(stops, stop)
		if !strings.Contains(caddyfile, name+":2468") {
			t.Errorf("the proxy does not know %s", name)
		}
		caddyfile = strings.ReplaceAll(caddyfile, name+":2468", s.at)
	}
	cert, key := certificate(t, deskName)
	at, dir := deskName+":"+testspace.Port(t), t.TempDir()
	caddyfile = strings.NewReplacer(
		"{$HOST}", at, "tls internal", "tls "+cert+" "+key,
		"skip_install_trust", "skip_install_trust\n\tadmin off\n\thttp_port "+testspace.Port(t),
	).Replace(caddyfile)
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", writeFile(t, "Caddyfile", caddyfile))
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	start(t, cmd)
	c := newClient(&url.URL{Scheme: "https", Host: at}, token)
	until(t, "the proxy answers", func() bool { return status(t, c, http.MethodGet, "/v1/health", "") == http.StatusOK })
	made := newClient(&url.URL{Scheme: "http", Host: servers[0].at}, token)
	for i := range 4 {
		made.call(t, http.MethodPost, fmt.Sprintf("/v1/sessions/s%d", i), `{"agent":"mock","directory":"/"}`)
	}
	say := func(i int) int {
		return status(t, c, http.MethodPost, fmt.Sprintf("/v1/sessions/s%d/messages", i), `{"message":"hello"}`)
	}
	for i := range 4 { // Caddy chooses the server
		if got := say(i); got != http.StatusNoContent {
			t.Errorf("message to session %d: %d", i, got)
		}
	}
	stops[0]()
	for i := range 4 {
		until(t, "the other server continues the session", func() bool { return say(i) == http.StatusNoContent })
	}
}

// status sends JSON and returns the status of the answer, or 0.
func status(t *testing.T, c *client, method, path, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.base.String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestFleetFiles has docker-compose and promtool check the files of the fleet.
func TestFleetFiles(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "docker-compose", "promtool")
	dir := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(dir, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", block(t, "docs/deploy/compose.md", "fleet config", "docker compose", "docker-compose"))
	cmd.Dir = filepath.Join(dir, "compose/fleet")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{`DESKHAND_DATABASE: postgres://deskhand:[\w-]{32}@postgres/`, "no-new-privileges:true", "read_only: true"} {
		if n := len(regexp.MustCompile(want).FindAll(out, -1)); n != 2 {
			t.Errorf("the configuration has %q %d times, want twice\n%s", want, n, out)
		}
	}
	config := strings.ReplaceAll(repository(t, "deploy/compose/fleet/prometheus.yml"), "- alerts.yml", "- "+filepath.Join(dir, "prometheus/alerts.yml"))
	if out, err := exec.Command("promtool", "check", "config", writeFile(t, "prometheus.yml", config)).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
