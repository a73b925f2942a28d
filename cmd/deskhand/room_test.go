package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// bomb forks until the limit is reached, and then keeps trying.
const bomb = `{"command":"bash","args":["-c","sh -c 'f() { sleep 600 & f & f & wait; }; f' & while :; do sleep 600 & done"]}`

// TestForkBomb has a client use up the limit of processes: the server goes on
// answering, refuses to start more, and ends the client's.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "prlimit", "bash")
	env, prefix := unprivileged(t)
	line := append(append(prefix, "prlimit", "--nproc=250:250"), binary, "server", "--port", "0")
	s := serveAs(t, line[0], env, line[1:]...)
	survive(t, s)
}

// TestForkBombInCgroup does so in a control group that counts tasks, which binds
// root, too.
func TestForkBombInCgroup(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "bash")
	dir := pidsGroup(t, 250)
	s := serveAs(t, "sh", environ(t), "-c", "echo $$ >"+dir+"/cgroup.procs && exec "+binary+" server --port 0")
	survive(t, s)
	s.signal(t, 15)
}

// TestLaunchWithoutRoom has a client launch programs of another user at the limit of tasks: the
// server has no fewer threads afterwards, although it works with that user's rights. The limit
// is below the number of tasks, as if a fork bomb took the place of each that ends.
func TestLaunchWithoutRoom(t *testing.T) {
	t.Parallel()
	testx11.Require(t)
	if os.Getuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	dir := pidsGroup(t, 500)
	s := serveAs(t, "sh", environ(t), "-c", "echo $$ >"+dir+"/cgroup.procs && exec "+binary+" server --port 0 --desktop-user www-data")
	s.ask(t, "/v1/desktop/start", "{}", nil)
	allow := func(tasks string) {
		if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte(tasks), 0); err != nil {
			t.Fatal(err)
		}
	}
	const launch = `{"app":"true"}`
	s.ask(t, "/v1/desktop/launch", launch, nil)
	allow("1")
	for range 200 {
		status, answer := s.call(t, "/v1/desktop/launch", launch)
		if status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "limit of processes") {
			t.Fatalf("%d: %s", status, answer)
		}
	}
	allow("500")
	s.ask(t, "/v1/desktop/launch", launch, nil)
	s.signal(t, 15)
}

// pidsGroup makes a control group with a limit of tasks.
func pidsGroup(t *testing.T, limit int) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, "deskhand-test-"+strconv.Itoa(os.Getpid())+"-"+t.Name())
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			poll(t, readyLimit, "the control group is empty", func() string {
				if err := os.Remove(dir); err != nil {
					return err.Error()
				}
				return ""
			})
		})
		if os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(limit)), 0) == nil {
			return dir
		}
	}
	t.Skip("no control group that counts tasks can be made here")
	return ""
}

func survive(t *testing.T, s *server) {
	t.Helper()
	var p struct{ ID string }
	s.ask(t, "/v1/processes", bomb, &p)
	poll(t, readyLimit, "no more processes are started", func() string {
		status, answer := s.call(t, "/v1/processes/run", `{"command":"true"}`)
		switch status {
		case http.StatusOK:
			return "one more was started"
		case http.StatusServiceUnavailable:
			if !strings.Contains(string(answer), "limit of processes") {
				t.Fatalf("%s", answer)
			}
			return ""
		}
		t.Fatalf("%d: %s", status, answer)
		return ""
	})
	var calls sync.WaitGroup // each of which may take a thread
	for range 40 {
		calls.Go(func() {
			if status, answer := s.call(t, "/v1/fs/entries?path=/usr/bin", ""); status != http.StatusOK {
				t.Errorf("%d: %s", status, answer)
			}
		})
	}
	calls.Wait()
	s.ask(t, "/v1/processes/"+p.ID+"/kill", "{}", nil)
	poll(t, readyLimit, "processes are started again", func() string {
		status, answer := s.call(t, "/v1/processes/run", `{"command":"true"}`)
		if status == http.StatusOK {
			return ""
		}
		return string(answer)
	})
}
