package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/webrtc"
)

func TestMediaFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("of,the:file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TURN_SECRET", "of-the-environment")
	for _, c := range []struct {
		flags mediaFlags
		want  webrtc.NetworkConfig
	}{
		{mediaFlags{}, webrtc.NetworkConfig{}},
		{mediaFlags{udpPort: "off"}, webrtc.NetworkConfig{UDPPort: -1}},
		{mediaFlags{udpPort: "7000"}, webrtc.NetworkConfig{UDPPort: 7000}},
		{mediaFlags{tcpPort: "2468"}, webrtc.NetworkConfig{TCPPort: 2468}},
		{mediaFlags{portRange: "7000-7010"}, webrtc.NetworkConfig{PortMin: 7000, PortMax: 7010}},
		{mediaFlags{announce: []string{"203.0.113.7", "2001:db8::7"}}, webrtc.NetworkConfig{Announce: []string{"203.0.113.7", "2001:db8::7"}}},
		{
			mediaFlags{servers: []string{
				"stun:a:1", "turn:b:2?transport=tcp,ann,se,cret", "turns:c,ann,file:" + file, "turn:d,ann,env:TURN_SECRET",
			}},
			webrtc.NetworkConfig{ICEServers: []webrtc.ICEServer{
				{URLs: []string{"stun:a:1"}},
				{URLs: []string{"turn:b:2?transport=tcp"}, Username: "ann", Credential: "se,cret"},
				{URLs: []string{"turns:c"}, Username: "ann", Credential: "of,the:file"},
				{URLs: []string{"turn:d"}, Username: "ann", Credential: "of-the-environment"},
			}},
		},
	} {
		var cfg httpapi.Config
		if err := c.flags.config(&cfg); err != nil {
			t.Errorf("%+v: %v", c.flags, err)
		}
		if diff := cmp.Diff(c.want, cfg.Media); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.flags, diff)
		}
		if hidden := strings.Contains(strings.Join(c.flags.servers, " "), "env:"); hidden != (len(cfg.Secrets) == 1 && cfg.Secrets[0] == "TURN_SECRET") {
			t.Errorf("%+v: secrets are %q", c.flags, cfg.Secrets)
		}
	}
}

func TestMediaMistakes(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--media-udp-port", "x"}, exitUsage, `--media-udp-port must be a number from 1 to 65535, or off, not "x"`},
		{[]string{"--media-udp-port", "65536"}, exitUsage, "--media-udp-port must be"},
		{[]string{"--media-udp-port", "0"}, exitUsage, "--media-udp-port must be"},
		{[]string{"--media-tcp-port", "0"}, exitUsage, `--media-tcp-port must be a number from 1 to 65535, not "0"`},
		{[]string{"--media-port-range", "5"}, exitUsage, "--media-port-range must be two numbers"},
		{[]string{"--media-port-range", "9-5"}, exitUsage, "two numbers from 1 to 65535 such as"},
		{[]string{"--media-port-range", "0-5"}, exitUsage, "--media-port-range must be"},
		{[]string{"--media-port-range", "5-9", "--media-udp-port", "5"}, exitUsage, "excludes"},
		{[]string{"--announce-ip", "example.com"}, exitUsage, `--announce-ip must be an IP address by which viewers reach this machine, not "example.com"`},
		{[]string{"--announce-ip", "0.0.0.0"}, exitUsage, "--announce-ip must be"},
		{[]string{"--ice-server", "example.com"}, exitUsage, "it must be like stun:HOST:PORT"},
		{[]string{"--ice-server", "turn:example.com"}, exitUsage, "a TURN server needs a user and a credential"},
		{[]string{"--ice-server", "turn:example.com,ann"}, exitUsage, "comma and the credential"},
		{[]string{"--ice-server", "turn:example.com,ann,file:" + empty}, exitFailure, "must hold one line"},
		{[]string{"--ice-server", "turn:example.com,ann,file:" + empty + ".none"}, exitFailure, "no such file"},
		{[]string{"--ice-server", "turn:example.com,ann,env:NO_SUCH_VARIABLE"}, exitFailure, "the environment has no NO_SUCH_VARIABLE"},
	} {
		got := runCommandLine(t, environ(t), append([]string{"server", "-p", "0"}, c.args...)...)
		if got.status != c.status || !strings.Contains(got.stderr, c.want) || strings.Count(got.stderr, "\n") > 2 {
			t.Errorf("%q: %+v; want status %d and %q", c.args, got, c.status, c.want)
		}
	}
}

// TestTakenMediaPort wants the error at the start, not when a viewer connects.
func TestTakenMediaPort(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := strconv.Itoa(taken.LocalAddr().(*net.UDPAddr).Port)
	got := runCommandLine(t, environ(t), "server", "-p", "0", "--media-udp-port", port)
	if got.status != exitFailure || !strings.Contains(got.stderr, "choose another --media-udp-port") || got.stdout != "" {
		t.Errorf("%+v, want an error about the port", got)
	}
}

// The credential of a TURN server is in no process list, not even the one of
// the command line, and in no environment of a program of a desktop.
func TestHiddenCredential(t *testing.T) {
	t.Parallel()
	env := append(environ(t), "TURN_PASS="+secret, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=of-no-trace")
	s := serve(t, env, "--ice-server", "turn:192.0.2.1,ann,"+secret+"-two", "--ice-server=turn:192.0.2.1,ann,env:TURN_PASS", "--log-level", "debug")
	if line := procFile(s.pid, "cmdline"); strings.Contains(line, secret) || !strings.Contains(line, "turn:192.0.2.1,ann,***") {
		t.Errorf("command line: %q", line)
	}
	if shown := procFile(s.pid, "environ"); strings.Contains(shown, secret) || strings.Contains(shown, "of-no-trace") || !strings.Contains(shown, "TURN_PASS=*") {
		t.Errorf("environment: %q", shown)
	}
	var ran struct{ Stdout string }
	s.ask(t, "/v1/processes/run", `{"command":"env"}`, &ran)
	if ran.Stdout == "" || strings.Contains(ran.Stdout, secret) {
		t.Errorf("environment of a process:\n%s", ran.Stdout)
	}
	s.signal(t, 15)
	if log := s.stderr.String(); strings.Contains(log, secret) {
		t.Errorf("log:\n%s", log)
	}
}
