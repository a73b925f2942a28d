package process_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/process"
)

func ids(infos []process.Info) (all []string) {
	for _, i := range infos {
		all = append(all, i.ID)
	}
	return all
}

// The list is in the order of the starts, and numeric: proc_10 comes after proc_9.
func TestListOrder(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	var want []string
	for range 25 {
		want = append(want, start(t, m, script("sleep 1000")).ID())
	}
	if diff := cmp.Diff(want, ids(m.List(process.OwnerUser))); diff != "" {
		t.Error(diff)
	}
}

// The list contains children of other parts of the program, in the order of all starts. They
// can be watched and ended.
func TestOtherGroups(t *testing.T) {
	t.Parallel()
	m, stranger := newManager(t, process.Config{}), newManager(t, process.Config{})
	g, err := supervise.NewGroup(supervise.GroupConfig{Owner: "desktop"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	child := func(script string) *supervise.Child {
		c, err := g.Start(supervise.Spec{Path: "sh", Args: []string{"-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := start(t, m, script("sleep 1000"))
	second := child("echo one; echo two >&2; read line <" + fifo(t))
	agents, err := supervise.NewGroup(supervise.GroupConfig{Owner: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	defer agents.Close()
	agent, err := agents.Start(supervise.Spec{Path: "sleep", Args: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	third := start(t, m, process.Spec{Command: "sleep", Args: []string{"1000"}, Owner: process.OwnerSystem})
	foreign := start(t, stranger, script("sleep 1000"))

	mine := func(owner process.Owner) (all []string) { // without the groups of other tests
		for _, id := range ids(m.List(owner)) {
			if slices.Contains([]string{first.ID(), second.ID(), agent.ID(), third.ID(), foreign.ID()}, id) {
				all = append(all, id)
			}
		}
		return all
	}
	for owner, want := range map[process.Owner][]string{
		"": {first.ID(), second.ID(), agent.ID(), third.ID()}, process.OwnerUser: {first.ID()}, process.OwnerDesktop: {second.ID()},
		process.OwnerSystem: {agent.ID(), third.ID()}, "none": nil, "agent": nil,
	} {
		if diff := cmp.Diff(want, mine(owner)); diff != "" {
			t.Errorf("owner %q: %s", owner, diff)
		}
	}
	if p, err := m.Find(agent.ID()); err != nil || p.Info().Owner != process.OwnerSystem || p.Info().Part != "agent" {
		t.Errorf("an agent's process: %+v, %v", p.Info(), err)
	}
	if _, err := m.Find(foreign.ID()); !errors.Is(err, process.ErrNotFound) {
		t.Errorf("Find of another manager's process: %v", err)
	}
	p, err := m.Find(second.ID())
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := m.Find(second.ID()); again != p {
		t.Error("a second Find returns another process, whose log would be numbered anew")
	}
	i := p.Info()
	if i.ID != second.ID() || i.Owner != process.OwnerDesktop || !i.Running || i.PID != second.PID() || !strings.HasSuffix(i.Command, "/sh") || len(i.Args) != 2 {
		t.Errorf("%+v", i)
	}
	testOther(t, m, p)
}

func testOther(t *testing.T, m *process.Manager, p *process.Process) {
	t.Helper()
	r := p.Log().Follow(0)
	await(t, p, "two")
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, process.ErrInputClosed) {
		t.Errorf("Write: %v", err)
	}
	if err := p.CloseInput(); !errors.Is(err, process.ErrInputClosed) {
		t.Errorf("CloseInput: %v", err)
	}
	if err := p.Resize(1, 1); !errors.Is(err, process.ErrNotTerminal) {
		t.Errorf("Resize: %v", err)
	}
	if err := m.Remove(p.ID()); !errors.Is(err, process.ErrRunning) {
		t.Errorf("Remove while it runs: %v", err)
	}
	if u, err := p.Usage(); err != nil || u.Processes < 1 {
		t.Errorf("Usage: %+v, %v", u, err)
	}
	if i := p.Stop(t.Context(), limit); i.Running || i.Exit == nil || i.Exit.Signal != "SIGTERM" || i.Ended.IsZero() {
		t.Errorf("Stop: %+v", i)
	}
	if got, gap := readAll(t, r); got != "one\ntwo\n" || gap != (process.Gap{}) {
		t.Errorf("its log has %q, %+v", got, gap)
	}
	if i := m.List(process.OwnerDesktop); !slices.ContainsFunc(i, func(i process.Info) bool { return i.ID == p.ID() && !i.Running && i.PID == 0 && i.Exit != nil }) {
		t.Errorf("the list has it as %+v", i)
	}
	if err := m.Remove(p.ID()); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, err := m.Find(p.ID()); !errors.Is(err, process.ErrNotFound) {
		t.Errorf("Find after Remove: %v", err)
	}
}

// A reader of the log of another part's process gets output that is written while it waits, and
// io.EOF.
func TestFollowOtherGroups(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	g, err := supervise.NewGroup(supervise.GroupConfig{Owner: "desktop"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	path := fifo(t)
	c, err := g.Start(supervise.Spec{Path: "sh", Args: []string{"-c", "echo one; read line <" + path + "; echo $line; head -c 200000 /dev/zero; echo end"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Find(c.ID())
	if err != nil {
		t.Fatal(err)
	}
	r := p.Log().Follow(0)
	entries, _, err := r.Next(t.Context())
	if err != nil || string(entries[0].Data) != "one\n" || entries[0].Sequence != 1 || entries[0].Stream != process.Stdout {
		t.Fatalf("%+v, %v", entries, err)
	}
	next := make(chan string)
	go func() {
		text, gap := readAll(t, r)
		next <- fmt.Sprint(len(text)+int(gap.Bytes), text[len(text)-4:])
	}()
	if err := os.WriteFile(path, []byte("two\n"), 0); err != nil {
		t.Fatal(err)
	}
	// The reader may have missed any number of the zeros.
	if got := <-next; got != fmt.Sprint(4+200000+4, "end\n") {
		t.Errorf("it read %s", got)
	}
	if _, _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

func TestProcessLimit(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxProcesses: 2}})
	a := start(t, m, script("sleep 1000"))
	start(t, m, script("sleep 1000"))
	var full *process.LimitError
	if _, err := m.Start(script("true")); !errors.As(err, &full) || full.Limit != 2 || err.Error() != "max concurrent process limit reached (2)" {
		t.Errorf("the third: %v", err)
	}
	s := script("sleep 1000")
	s.Owner = process.OwnerSystem
	start(t, m, s) // does not count
	if r, err := m.Run(t.Context(), script("true"), process.RunOptions{}); err != nil || code(r.Exit) != "0" {
		t.Errorf("Run counts towards it: %+v, %v", r, err)
	}
	if _, err := m.Start(process.Spec{Command: "no-such-program", Owner: process.OwnerSystem}); err == nil {
		t.Error("no error")
	}
	a.Kill(t.Context(), limit)
	// When Done is closed, the process no longer counts.
	start(t, m, script("true"))
	for range 3 { // failed starts do not count
		if _, err := m.Start(process.Spec{Command: "no-such-program"}); errors.As(err, &full) {
			continue
		} else if err == nil {
			t.Error("no error")
		}
	}
	var wg sync.WaitGroup
	m = newManager(t, process.Config{Limits: process.Limits{MaxProcesses: 5}})
	var mu sync.Mutex
	started := 0
	for range 20 {
		wg.Go(func() {
			_, err := m.Start(script("sleep 1000"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				started++
			} else if !errors.As(err, new(*process.LimitError)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if started != 5 {
		t.Errorf("%d of 20 started, want 5", started)
	}
}

func TestSetLimits(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	if diff := cmp.Diff(process.DefaultLimits(), m.Limits()); diff != "" {
		t.Error(diff)
	}
	good := process.Limits{MaxProcesses: 1, RunTimeout: 2 * time.Second, MaxRunTimeout: time.Second, MaxOutput: 3, MaxLog: 4, MaxInput: 5}
	for name, change := range map[string]func(*process.Limits){
		"MaxProcesses":  func(l *process.Limits) { l.MaxProcesses = 0 },
		"MaxRunTimeout": func(l *process.Limits) { l.MaxRunTimeout = 0 },
		"MaxInput":      func(l *process.Limits) { l.MaxInput = -1 },
	} {
		bad := good
		change(&bad)
		if err := m.SetLimits(bad); !isInvalid(err, name) || err.Error() != name+" must be greater than 0" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if m.Limits() != process.DefaultLimits() {
		t.Error("refused limits have changed the limits")
	}
	p := start(t, m, script("echo 12345678; sleep 1000"))
	await(t, p, "12345678")
	if err := m.SetLimits(good); err != nil {
		t.Fatal(err)
	}
	good.RunTimeout = time.Second
	if diff := cmp.Diff(good, m.Limits()); diff != "" {
		t.Error(diff)
	}
	if got := text(p); got != "678\n" {
		t.Errorf("the log has %q with 4 bytes at most", got)
	}
	for _, cfg := range []process.Config{{Limits: process.Limits{MaxLog: -1}}, {MaxRecords: -1}} {
		if _, err := process.New(cfg); !errors.As(err, new(*process.InvalidError)) {
			t.Errorf("New(%+v): %v", cfg, err)
		}
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, script("echo text; sleep 1000"))
	await(t, p, "text")
	if err := m.Remove(p.ID()); !errors.Is(err, process.ErrRunning) {
		t.Errorf("Remove while it runs: %v", err)
	}
	p.Kill(t.Context(), limit)
	if err := m.Remove(p.ID()); err != nil {
		t.Error(err)
	}
	if text(p) != "text\n" {
		t.Errorf("its log cannot be read after Remove: %q", text(p))
	}
	for _, id := range []string{p.ID(), "proc_0", "", strings.Repeat("x", 1000)} {
		if err := m.Remove(id); !errors.Is(err, process.ErrNotFound) || len(err.Error()) > 100 {
			t.Errorf("Remove of %.20q: %v", id, err)
		}
	}
	if l := m.List(process.OwnerUser); len(l) != 0 {
		t.Errorf("the list has %+v", l)
	}
}

// The records of exited processes are bounded by number and by size. Running processes stay.
func TestRecords(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{MaxRecords: 3})
	runs := start(t, m, script("sleep 1000"))
	var ended []string
	for range 10 {
		p := start(t, m, script("true"))
		wait(t, p)
		ended = append(ended, p.ID())
	}
	if diff := cmp.Diff(append([]string{runs.ID()}, ended[7:]...), ids(m.List(process.OwnerUser))); diff != "" {
		t.Error(diff)
	}

	m = newManager(t, process.Config{Limits: process.Limits{MaxLog: 30 << 20}})
	ended = nil
	for range 4 {
		p := start(t, m, script("head -c 30000000 /dev/zero"))
		wait(t, p)
		ended = append(ended, p.ID())
	}
	if diff := cmp.Diff(ended[2:], ids(m.List(process.OwnerUser))); diff != "" {
		t.Error("by size:", diff)
	}
}

// New ends the processes that a killed program with the same directory left.
func TestRecordOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	records := func(want int) {
		t.Helper()
		if files, err := os.ReadDir(dir); err != nil || len(files) != want {
			t.Errorf("%d records, want %d, %v", len(files), want, err)
		}
	}
	m := newManager(t, process.Config{Dir: dir})
	records(0)
	wait(t, start(t, m, script("true")))
	records(1)
	second := newManager(t, process.Config{Dir: dir}) // does not end the processes of the running manager
	p := start(t, second, script("sleep 1000"))
	newManager(t, process.Config{Dir: dir})
	if !p.Running() {
		t.Error("a new manager has ended another's process")
	}
	records(2)
	for _, m := range []*process.Manager{m, second} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	records(0)
}

// The log of a removed process, which may be large, can be collected.
func TestRemovedProcessesReleaseLog(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	for _, s := range []process.Spec{script("echo out; echo err >&2"), {Command: "echo", Args: []string{"out"}, Terminal: true}} {
		run := func() weak.Pointer[process.Log] {
			p := start(t, m, s)
			wait(t, p)
			if err := m.Remove(p.ID()); err != nil {
				t.Fatal(err)
			}
			return weak.Make(p.Log())
		}
		log := run()
		deadline := time.Now().Add(limit)
		for tick := time.NewTicker(5 * time.Millisecond); log.Value() != nil; <-tick.C {
			if runtime.GC(); time.Now().After(deadline) {
				t.Fatalf("terminal %v: the log is still referenced", s.Terminal)
			}
		}
	}
}
