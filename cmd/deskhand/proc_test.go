package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// process is one in the process table. Two values are equal only if they mean
// the same process: numbers are used again, together with a start time not.
type process struct {
	pid     int
	started string // field 22 of /proc/PID/stat
	name    string
}

// snapshot reads the process table without zombies.
func snapshot(tb testing.TB) (all map[int]process, parent map[int]int) {
	tb.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		tb.Fatal(err)
	}
	all, parent = map[int]process{}, map[int]int{}
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		// proc_pid_stat(5): pid (name) state ppid ...; the name may hold anything.
		open, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		f := strings.Fields(string(stat[end+1:]))
		if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		pid, err1 := strconv.Atoi(filepath.Base(dir))
		ppid, err2 := strconv.Atoi(f[1])
		if err1 != nil || err2 != nil {
			tb.Fatalf("%s/stat: %s", dir, stat)
		}
		all[pid], parent[pid] = process{pid, f[19], string(stat[open+1 : end])}, ppid
	}
	return all, parent
}

// descendants are the living children of a process, theirs, and so on.
func descendants(tb testing.TB, pid int) []process {
	tb.Helper()
	all, parent := snapshot(tb)
	var list []process
	for p := range all {
		for a := parent[p]; a > 1; a = parent[a] {
			if a == pid {
				list = append(list, all[p])
				break
			}
		}
	}
	return list
}

// named finds a descendant of that name.
func named(tb testing.TB, pid int, name string) process {
	tb.Helper()
	list := descendants(tb, pid)
	i := slices.IndexFunc(list, func(p process) bool { return p.name == name })
	if i < 0 {
		tb.Fatalf("no %s among %v", name, list)
	}
	return list[i]
}

// wantGone fails unless these processes have ended, or are about to.
func wantGone(tb testing.TB, list []process) {
	tb.Helper()
	// A killed process stays in the table until its memory is given back.
	poll(tb, readyLimit, "its children have ended", func() string {
		all, _ := snapshot(tb)
		var left []string
		for _, p := range list {
			if all[p.pid] == p {
				left = append(left, p.name+" "+strconv.Itoa(p.pid))
			}
		}
		return strings.Join(left, ", ")
	})
}

// procFile reads a file of /proc/PID; it is empty when the process has ended.
func procFile(pid int, name string) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return ""
	}
	return string(text)
}

// marked are the processes that have a text in their environment.
func marked(tb testing.TB, mark string) []process {
	tb.Helper()
	all, _ := snapshot(tb)
	var list []process
	for _, p := range all {
		if p.pid != os.Getpid() && strings.Contains(procFile(p.pid, "environ"), mark) {
			list = append(list, p)
		}
	}
	return list
}
