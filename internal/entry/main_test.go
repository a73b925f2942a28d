package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMain is also the program that entry executes. It prints its arguments and files.
func TestMain(m *testing.M) {
	if os.Getenv("ENTRY_TEST") == "" {
		os.Exit(m.Run())
	}
	at := "no socket"
	if ln, err := net.FileListener(os.NewFile(passedSocket, "socket")); err == nil {
		at = ln.Addr().String()
	}
	name := "no name"
	if os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) && os.Getenv("LISTEN_FDS") == "1" {
		name = os.Getenv("LISTEN_FDNAMES")
	}
	fmt.Print(at, " ", name, " ", strings.Join(os.Args[1:], " "))
	os.Exit(0)
}

func TestBecomesTheServer(t *testing.T) {
	t.Parallel()
	entry := filepath.Join(t.TempDir(), "entry")
	if out, err := exec.Command("go", "build", "-o", entry, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	_, used, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"server --port " + port: "127.0.0.1:" + port + " deskhand-entry server --port " + port,
		"server --port " + used: "no socket no name server --port " + used,
		"version":               "no socket no name version",
	} {
		cmd := exec.Command(entry, append([]string{self}, strings.Fields(words)...)...)
		cmd.Env = append(os.Environ(), "ENTRY_TEST=1")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", words, err, out, want)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ words, env, want string }{
		{"server", "", "127.0.0.1:2468"},
		{"server --no-token --host 0.0.0.0 --port 3000", "", "0.0.0.0:3000"},
		{"server -H 0.0.0.0 -p 3000", "", "0.0.0.0:3000"},
		{"server --host=0.0.0.0 --port=3000", "DESKHAND_PORT=4000", "0.0.0.0:3000"},
		{"server", "DESKHAND_HOST=0.0.0.0 DESKHAND_PORT=4000 SANDBOX_AGENT_PORT=5000", "0.0.0.0:4000"},
		{"server", "SANDBOX_AGENT_PORT=5000", "127.0.0.1:5000"},
		{"server", "DESKHAND_PORT=tcp://10.0.0.1:80", "127.0.0.1:2468"},
		{"server --port 0", "", ""},
		{"server --port many", "", ""},
		{"server --host ::", "", ""},
		{"server --host localhost", "", ""},
		{"api server", "", ""},
		{"", "", ""},
	} {
		env := func(name string) string {
			for field := range strings.FieldsSeq(tt.env) {
				if v, ok := strings.CutPrefix(field, name+"="); ok {
					return v
				}
			}
			return ""
		}
		got, ok := address(strings.Fields(tt.words), env)
		if text := map[bool]string{true: got.String()}[ok]; text != tt.want {
			t.Errorf("%q with %q: %q, want %q", tt.words, tt.env, text, tt.want)
		}
	}
}
