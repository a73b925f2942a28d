package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// shell is the body that runs a script, with further members.
func shell(script, more string) string {
	text, _ := json.Marshal(script)
	return fmt.Sprintf(`{"command":"sh","args":["-c",%s]%s}`, text, more)
}

// create starts a process and returns its description.
func (s *testServer) create(t *testing.T, body string) map[string]any {
	t.Helper()
	return s.post(t, "/v1/processes", body).want(t, 200).json(t)
}

// exited waits until a process has ended, and returns its description.
func (s *testServer) exited(t *testing.T, id any) map[string]any {
	t.Helper()
	var p map[string]any
	eventually(t, fmt.Sprintf("end of %v", id), func() bool {
		p = s.get(t, "/v1/processes/"+id.(string)).want(t, 200).json(t)
		return p["status"] == "exited"
	})
	return p
}

// gone says whether a process has ended. Who adopted it may not have waited for
// it yet.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

// number reads the process number that a script wrote to a file.
func number(t *testing.T, file string) int {
	t.Helper()
	var pid int
	eventually(t, file, func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0 && strings.HasSuffix(string(text), "\n")
	})
	return pid
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		body string
		want map[string]any // nil members are null
	}{
		"success":   {shell("echo out; echo err >&2", ""), map[string]any{"exitCode": 0.0, "stdout": "out\n", "stderr": "err\n", "timedOut": false}},
		"failure":   {shell("exit 7", ""), map[string]any{"exitCode": 7.0}},
		"signal":    {shell("kill -9 $$", ""), map[string]any{"exitCode": nil, "signal": "SIGKILL", "timedOut": false}},
		"cwd, env":  {shell("pwd; echo $GREETING", `,"cwd":"`+dir+`","env":{"GREETING":"hello"}`), map[string]any{"stdout": dir + "\nhello\n"}},
		"no input":  {shell("cat; echo end", ""), map[string]any{"stdout": "end\n"}},
		"cut":       {shell("printf 123456; printf abc >&2", `,"maxOutputBytes":3`), map[string]any{"stdout": "123", "stdoutTruncated": true, "stderr": "abc", "stderrTruncated": false}},
		"nothing":   {shell("echo x", `,"maxOutputBytes":0`), map[string]any{"stdout": "", "stdoutTruncated": true}},
		"not UTF-8": {shell(`printf 'a\377b'`, ""), map[string]any{"stdout": "a\uFFFDb"}},
		"no limit":  {shell("echo x", `,"timeoutMs":0`), map[string]any{"stdout": "x\n", "timedOut": false}},
		"huge time": {shell("echo x", `,"timeoutMs":18446744073709551615`), map[string]any{"stdout": "x\n"}},
		"timeout":   {shell("echo begun; exec sleep 3600", `,"timeoutMs":300`), map[string]any{"exitCode": nil, "timedOut": true, "stdout": "begun\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.post(t, "/v1/processes/run", tt.body).want(t, 200).json(t)
			for field, want := range tt.want {
				if v, there := got[field]; v != want || !there {
					t.Errorf("%s = %v, want %v", field, v, want)
				}
			}
		})
	}
}

// TestRunDoesNotWaitForGrandchildren: a program that something else keeps the
// pipe of is answered for all the same, in time and with nothing left behind.
func TestRunDoesNotWaitForGrandchildren(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	file := filepath.Join(t.TempDir(), "pid")
	begun := time.Now()
	got := s.post(t, "/v1/processes/run", shell("echo hi; sleep 3600 & echo $! >"+file+"; wait", `,"timeoutMs":200`)).want(t, 200).json(t)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("answered after %v", took)
	}
	if got["timedOut"] != true || got["stdout"] != "hi\n" {
		t.Errorf("result = %v", got)
	}
	pid := number(t, file)
	eventually(t, "end of the grandchild", func() bool { return gone(pid) })

	got = s.post(t, "/v1/processes/run", shell("echo hi; sleep 3600 & echo $! >"+file, `,"timeoutMs":50000`)).want(t, 200).json(t)
	if got["timedOut"] != false || got["stdout"] != "hi\n" || got["exitCode"] != 0.0 {
		t.Errorf("result with a program left running = %v", got)
	}
}

func TestProcessLife(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	p := s.create(t, `{"command":"cat","args":["-u"],"cwd":"/tmp","interactive":true}`)
	id := p["id"].(string)
	for field, want := range map[string]any{"command": "cat", "cwd": "/tmp", "tty": false, "interactive": true, "owner": "user", "status": "running"} {
		if p[field] != want {
			t.Errorf("%s = %v, want %v", field, p[field], want)
		}
	}
	if _, there := p["exitCode"]; there || p["pid"].(float64) <= 0 {
		t.Errorf("a running process is %v", p)
	}
	base := "/v1/processes/" + id
	got := s.post(t, base+"/input", `{"data":"aGVsbG8K"}`).want(t, 200).json(t)
	if got["bytesWritten"] != 6.0 {
		t.Errorf("input: %v", got)
	}
	s.post(t, base+"/input", `{"data":"wörld\n","encoding":"utf8"}`).want(t, 200)
	s.post(t, base+"/input/close", "").want(t, 200)
	p = s.exited(t, id)
	if p["exitCode"] != 0.0 || p["pid"] != nil || p["exitedAtMs"].(float64) < p["createdAtMs"].(float64) {
		t.Errorf("at the end the process is %v", p)
	}
	var text strings.Builder
	for _, e := range s.get(t, base+"/logs").want(t, 200).json(t)["entries"].([]any) {
		data, err := base64.StdEncoding.DecodeString(e.(map[string]any)["data"].(string))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	if text.String() != "hello\nwörld\n" {
		t.Errorf("log = %q", text.String())
	}
	s.post(t, base+"/input", `{"data":"aGVsbG8K"}`).problem(t, 409, "conflict")
	s.do(t, call{method: http.MethodPost, path: base + "/stop"}).want(t, 200)
	s.do(t, call{method: http.MethodDelete, path: base}).want(t, 204)
	s.get(t, base).problem(t, 404, "not_found")
}

func TestProcessErrors(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	running := "/v1/processes/" + s.create(t, `{"command":"sleep","args":["3600"]}`)["id"].(string)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		"blank command":      {"", "/v1/processes", `{"command":" "}`, 400, "invalid_request", "command must not be empty"},
		"blank run":          {"", "/v1/processes/run", `{"command":""}`, 400, "invalid_request", "command must not be empty"},
		"no command":         {"", "/v1/processes", `{}`, 422, "invalid_request", "command"},
		"wrong type":         {"", "/v1/processes", `{"command":"true","args":"x"}`, 422, "invalid_request", "args"},
		"no program":         {"", "/v1/processes", `{"command":"no-such-program"}`, 502, "stream_error", "failed to spawn process"},
		"not executable":     {"", "/v1/processes/run", `{"command":"` + script + `"}`, 502, "stream_error", "permission"},
		"no directory":       {"", "/v1/processes/run", `{"command":"true","cwd":"/nonexistent"}`, 502, "stream_error", "working directory"},
		"NUL":                {"", "/v1/processes/run", `{"command":"true","args":["a\u0000b"]}`, 502, "stream_error", "NUL"},
		"environment":        {"", "/v1/processes/run", `{"command":"true","env":{"A=B":"c"}}`, 400, "invalid_request", "env"},
		"user":               {"", "/v1/processes/run", `{"command":"true","user":"no-such-user"}`, 400, "invalid_request", "user"},
		"unknown desktop":    {"", "/v1/processes", `{"command":"true","desktop":"nope"}`, 404, "not_found", "desktop nope"},
		"stopped desktop":    {"", "/v1/processes", `{"command":"true","desktop":"main"}`, 409, "desktop_runtime_inactive", "start"},
		"unknown process":    {"GET", "/v1/processes/proc_999999", "", 404, "not_found", "process proc_999999"},
		"odd id":             {"GET", "/v1/processes/nonsense", "", 404, "not_found", "nonsense"},
		"unknown stop":       {"POST", "/v1/processes/proc_999999/stop", "", 404, "not_found", "process"},
		"unknown kill":       {"POST", "/v1/processes/proc_999999/kill", "", 404, "not_found", "process"},
		"unknown delete":     {"DELETE", "/v1/processes/proc_999999", "", 404, "not_found", "process"},
		"unknown logs":       {"GET", "/v1/processes/proc_999999/logs", "", 404, "not_found", "process"},
		"unknown input":      {"", "/v1/processes/proc_999999/input", `{"data":""}`, 404, "not_found", "process"},
		"unknown terminal":   {"GET", "/v1/processes/proc_999999/terminal/ws", "", 404, "not_found", "process"},
		"bad owner":          {"GET", "/v1/processes?owner=me", "", 400, "invalid_request", "owner"},
		"bad stream":         {"GET", running + "/logs?stream=x", "", 400, "invalid_request", "stream"},
		"bad tail":           {"GET", running + "/logs?tail=-1", "", 400, "invalid_request", "tail"},
		"bad since":          {"GET", running + "/logs?since=x", "", 400, "invalid_request", "since"},
		"bad wait":           {"POST", running + "/stop?waitMs=soon", "", 400, "invalid_request", "waitMs"},
		"running delete":     {"DELETE", running, "", 409, "conflict", "process is still running"},
		"bad base64":         {"", running + "/input", `{"data":"%%"}`, 400, "invalid_request", "invalid base64 input"},
		"bad encoding":       {"", running + "/input", `{"data":"x","encoding":"hex"}`, 400, "invalid_request", "encoding must be one of: base64, utf8, text"},
		"too much":           {"", running + "/input", `{"data":"` + strings.Repeat("x", 65537) + `","encoding":"utf8"}`, 413, "invalid_request", "maxInputBytesPerRequest (65536)"},
		"no terminal":        {"", running + "/terminal/resize", `{"cols":80,"rows":24}`, 409, "conflict", "not running in tty mode"},
		"no terminal's size": {"", running + "/terminal/resize", `{"cols":80}`, 422, "invalid_request", "rows"},
		"absurd size":        {"", running + "/terminal/resize", `{"cols":65536,"rows":1}`, 422, "invalid_request", "cols"},
		"no socket":          {"GET", running + "/terminal/ws", "", 409, "conflict", "tty mode"},
		"zero limit":         {"", "/v1/processes/config", limits(0, 1, 1), 400, "invalid_request", "maxConcurrentProcesses must be greater than 0"},
		"zero time":          {"", "/v1/processes/config", limits(1, 0, 1), 400, "invalid_request", "timeouts must be greater than 0"},
		"zero bytes":         {"", "/v1/processes/config", limits(1, 1, 0), 400, "invalid_request", "byte limits must be greater than 0"},
		"missing limits":     {"", "/v1/processes/config", `{"maxConcurrentProcesses":1}`, 422, "invalid_request", "defaultRunTimeoutMs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := s.do(t, call{method: tt.method, path: tt.path, body: tt.body}).problem(t, tt.status, tt.code)
			if !strings.Contains(p["detail"].(string), tt.detail) {
				t.Errorf("detail = %q, want %q in it", p["detail"], tt.detail)
			}
		})
	}
}

// limits is a body of the configuration's route.
func limits(processes, times, bytes int) string {
	return fmt.Sprintf(`{"maxConcurrentProcesses":%d,"defaultRunTimeoutMs":%[2]d,"maxRunTimeoutMs":%[2]d,"maxOutputBytes":%[3]d,`+
		`"maxLogBytesPerProcess":%[3]d,"maxInputBytesPerRequest":%[3]d}`, processes, times, bytes)
}

func TestProcessLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	got := s.get(t, "/v1/processes/config").want(t, 200).json(t)
	want := map[string]any{
		"maxConcurrentProcesses": 64.0, "defaultRunTimeoutMs": 30000.0, "maxRunTimeoutMs": 300000.0, "maxOutputBytes": 1048576.0,
		"maxLogBytesPerProcess": 10485760.0, "maxInputBytesPerRequest": 65536.0,
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("default %s = %v, want %v", name, got[name], v)
		}
	}
	got = s.post(t, "/v1/processes/config", limits(2, 2000, 1000)).want(t, 200).json(t)
	if got["maxConcurrentProcesses"] != 2.0 || got["maxInputBytesPerRequest"] != 1000.0 {
		t.Errorf("set limits = %v", got)
	}
	first := s.create(t, `{"command":"sleep","args":["3600"]}`)["id"].(string)
	s.create(t, `{"command":"sleep","args":["3600"]}`)
	p := s.post(t, "/v1/processes", `{"command":"sleep","args":["3600"]}`).problem(t, 409, "conflict")
	if p["detail"] != "conflict: max concurrent process limit reached (2)" {
		t.Errorf("detail = %v", p["detail"])
	}
	s.do(t, call{method: http.MethodPost, path: "/v1/processes/" + first + "/kill?waitMs=20000"}).want(t, 200)
	s.create(t, `{"command":"sleep","args":["3600"]}`)
	run := s.post(t, "/v1/processes/run", shell("head -c 5000 /dev/zero", `,"maxOutputBytes":4000,"timeoutMs":100000`)).want(t, 200).json(t)
	if len(run["stdout"].(string)) != 1000 || run["stdoutTruncated"] != true {
		t.Errorf("a run above the limits printed %d bytes", len(run["stdout"].(string)))
	}
	run = s.post(t, "/v1/processes/run", shell("exec sleep 3600", `,"timeoutMs":100000`)).want(t, 200).json(t)
	if run["timedOut"] != true {
		t.Errorf("a run above the limit of time: %v", run)
	}
}

// TestEndingTakesTheFamily: stop and kill end what a process started, too.
func TestEndingTakesTheFamily(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	for _, how := range []string{"stop", "kill"} {
		file := filepath.Join(t.TempDir(), "pid")
		id := s.create(t, shell("sleep 3600 & echo $! >"+file+"; sleep 3600; true", ""))["id"].(string)
		pid := number(t, file)
		p := s.do(t, call{method: http.MethodPost, path: "/v1/processes/" + id + "/" + how + "?waitMs=20000"}).want(t, 200).json(t)
		if want := map[string]string{"stop": "SIGTERM", "kill": "SIGKILL"}[how]; p["status"] != "exited" || p["signal"] != want || p["exitCode"] != nil {
			t.Errorf("after %s: %v", how, p)
		}
		eventually(t, "end of the grandchild after "+how, func() bool { return gone(pid) })
	}
}

func TestProcessList(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	var want []string
	for range 12 {
		want = append(want, s.create(t, `{"command":"true"}`)["id"].(string))
	}
	list := func(query string) (ids []string) {
		for _, p := range s.get(t, "/v1/processes"+query).want(t, 200).json(t)["processes"].([]any) {
			ids = append(ids, p.(map[string]any)["id"].(string))
		}
		return ids
	}
	got := slices.DeleteFunc(list("?owner=user"), func(id string) bool { return !slices.Contains(want, id) })
	if !slices.Equal(got, want) {
		t.Errorf("list = %v, want %v", got, want)
	}
	id := s.create(t, shell("sleep 3600 & sleep 3600", ""))["id"].(string)
	eventually(t, "figures of a process and its child", func() bool {
		u, _ := s.get(t, "/v1/processes/"+id+"?usage=true").want(t, 200).json(t)["usage"].(map[string]any)
		return u != nil && u["processes"].(float64) >= 2 && u["rssBytes"].(float64) > 0 && u["cpuMs"].(float64) >= 0
	})
	if s.get(t, "/v1/processes/"+id).json(t)["usage"] != nil {
		t.Error("usage is told without being asked for")
	}
}

func TestFollowLogs(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id := s.create(t, shell("echo one; echo two >&2; read x; echo three; read y; kill -9 $$", ""))["id"].(string)
	base := "/v1/processes/" + id
	eventually(t, "the first lines", func() bool {
		return strings.Count(string(s.get(t, base+"/logs").want(t, 200).body), `"sequence"`) == 2
	})
	all := s.follow(t.Context(), t, base+"/logs?follow=true", nil)
	errs := s.follow(t.Context(), t, base+"/logs?follow=true&stream=stderr", nil)
	last := s.follow(t.Context(), t, base+"/logs?follow=true&tail=1&access_token="+s.Token(), nil)
	none := s.follow(t.Context(), t, base+"/logs?follow=true&tail=0", nil)
	resumed := s.follow(t.Context(), t, base+"/logs?follow=true", map[string]string{"Last-Event-ID": "1"})
	s.post(t, base+"/input", `{"data":"\n","encoding":"text"}`).want(t, 200)
	eventually(t, "the third line", func() bool {
		return strings.Count(string(s.get(t, base+"/logs").body), `"sequence"`) == 3
	})
	s.post(t, base+"/input", `{"data":"\n","encoding":"text"}`).want(t, 200)
	for name, tt := range map[string]struct {
		events <-chan sse
		want   []string
	}{
		"all":          {all, []string{"one\n", "two\n", "three\n"}},
		"stderr":       {errs, []string{"two\n"}},
		"tail=1":       {last, []string{"two\n", "three\n"}},
		"tail=0":       {none, []string{"three\n"}},
		"after id 1":   {resumed, []string{"two\n", "three\n"}},
		"after it all": {s.follow(t.Context(), t, base+"/logs?follow=true&since=2", nil), []string{"three\n"}},
	} {
		var got []string
		for e := range tt.events { // ends with the process
			var entry struct {
				Sequence uint64
				Data     []byte
			}
			if err := json.Unmarshal([]byte(e.data), &entry); err != nil || e.event != "log" || e.id != strconv.FormatUint(entry.Sequence, 10) {
				t.Fatalf("%s: event %+v: %v", name, e, err)
			}
			got = append(got, string(entry.Data))
		}
		if name == "tail=1" || name == "after id 1" || name == "all" {
			slices.Sort(got) // the two first lines come by two pipes
			slices.Sort(tt.want)
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestManyFollowers: each of them gets every line.
func TestManyFollowers(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	const followers, lines = 64, 2000
	id := s.create(t, shell(fmt.Sprintf("read x; seq 1 %d", lines), ""))["id"].(string)
	var wg sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(followers)
	for range followers {
		events := s.follow(t.Context(), t, "/v1/processes/"+id+"/logs?follow=true", nil)
		begun.Done()
		wg.Go(func() {
			var got strings.Builder
			for e := range events {
				var entry struct{ Data []byte }
				if err := json.Unmarshal([]byte(e.data), &entry); err != nil {
					t.Error(err)
				}
				got.Write(entry.Data)
			}
			if n := strings.Count(got.String(), "\n"); n != lines || !strings.HasSuffix(got.String(), "\n2000\n") {
				t.Errorf("a follower got %d lines", n)
			}
		})
	}
	begun.Wait()
	s.post(t, "/v1/processes/"+id+"/input", `{"data":"Cg=="}`).want(t, 200)
	wg.Wait()
}

// TestFollowersThatLeave leave nothing behind.
func TestFollowersThatLeave(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id := s.create(t, `{"command":"sleep","args":["3600"]}`)["id"].(string)
	ctx, cancel := context.WithCancel(t.Context())
	for range 10 {
		s.follow(ctx, t, "/v1/processes/"+id+"/logs?follow=true", nil)
	}
	if n := s.rest.OpenStreams(); n != 10 {
		t.Errorf("%d streams are open, want 10", n)
	}
	cancel()
	eventually(t, "end of the streams", func() bool { return s.rest.OpenStreams() == 0 })
}

// TestServerEndsProcesses: nothing outlives Close, and a stalled follower does
// not hold it up.
func TestServerEndsProcesses(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	file := filepath.Join(t.TempDir(), "pid")
	id := s.create(t, shell("trap '' TERM; setsid sleep 3600 & echo $! >"+file+"; while :; do sleep 1; done", ""))["id"].(string)
	pid := number(t, file)
	s.follow(t.Context(), t, "/v1/processes/"+id+"/logs?follow=true", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("process %d is left", pid)
	}
	s.client.CloseIdleConnections()
	runtime.KeepAlive(id)
}

// TestProcessesOfAgents: processes of agents have the owner system, which the document
// and published clients know, and are told apart by part.
func TestProcessesOfAgents(t *testing.T) {
	t.Parallel()
	g, err := supervise.NewGroup(supervise.GroupConfig{Owner: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	child, err := g.Start(supervise.Spec{Path: "sleep", Args: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{})
	for _, path := range []string{"/v1/processes", "/v1/processes?owner=system"} {
		var list struct{ Processes []map[string]any }
		decode(t, s.get(t, path).want(t, 200).body, &list)
		i := slices.IndexFunc(list.Processes, func(p map[string]any) bool { return p["id"] == child.ID() })
		if i < 0 || list.Processes[i]["owner"] != "system" || list.Processes[i]["part"] != "agent" {
			t.Errorf("%s: %v", path, list.Processes)
		}
	}
}
