package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// terminal is a terminal that a client of OpenCode's API made. It is a process of the server,
// so the routes of processes have it too.
type terminal struct {
	*process.Process
	dir string // of the request that made it

	mu    sync.Mutex // guards the fields below
	title string
}

// terminals are the terminals that clients have made.
type terminals struct {
	*area

	mu   sync.Mutex           // guards the fields below
	byID map[string]*terminal // by the id of the process
}

// ptyInfo describes a terminal.
type ptyInfo struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Command  string   `json:"command"`
	Args     []string `json:"args"`
	Cwd      string   `json:"cwd"`
	Status   string   `json:"status"`
	PID      int      `json:"pid"`
	ExitCode *int     `json:"exitCode,omitempty"`
}

// shell is a shell of this machine.
type shell struct {
	Path       string `json:"path"`
	Name       string `json:"name"`
	Acceptable bool   `json:"acceptable"`
}

// ptyCreate says what to run in a terminal.
type ptyCreate struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Cwd     string            `json:"cwd"`
	Title   string            `json:"title"`
	Env     map[string]string `json:"env"`
}

// ptyUpdate changes a terminal.
type ptyUpdate struct {
	Title *string `json:"title"`
	Size  *struct {
		Rows uint16 `json:"rows"`
		Cols uint16 `json:"cols"`
	} `json:"size"`
}

func (ts *terminals) routes() []route {
	return []route{
		get("/pty", func(c *call) (any, error) { return ts.list(c.directory), nil }),
		post("/pty", ts.create),
		get("/pty/shells", func(*call) (any, error) { return shells() }),
		get("/pty/{ptyID}", ts.with(func(_ *call, t *terminal) (any, error) { return t.info(), nil })),
		{http.MethodPut, "/pty/{ptyID}", ts.with(ts.change)},
		{http.MethodDelete, "/pty/{ptyID}", ts.with(func(c *call, t *terminal) (any, error) { return true, ts.end(c.ctx, t) })},
		get("/pty/{ptyID}/connect", ts.with(ts.connect)),
	}
}

// with returns the handler of a route about one terminal.
func (ts *terminals) with(handle func(*call, *terminal) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		t, err := ts.find(c.Param("ptyID"))
		if err != nil {
			return nil, err
		}
		return handle(c, t)
	}
}

func (ts *terminals) connect(c *call, t *terminal) (any, error) {
	var cursor int64
	if text := c.Query("cursor"); text != "" {
		var err error
		if cursor, err = strconv.ParseInt(text, 10, 64); err != nil || cursor < -1 {
			return nil, rest.InvalidField("cursor", "cursor must be a number from -1")
		}
	}
	return func() {
		const most = 64 << 10 // of what is typed at a time
		ts.Upgrade(c.Request, most, func(ctx context.Context, ws *rest.Socket) { t.attend(ctx, ws, cursor) })
	}, nil
}

// ptyPrefix begins the ids of terminals. The id of the process follows.
const ptyPrefix = "pty_"

func (t *terminal) id() string { return ptyPrefix + t.Process.ID() }

func (t *terminal) info() ptyInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.Process.Info()
	info := ptyInfo{t.id(), t.title, i.Command, slices.Clone(i.Args), i.Dir, "running", i.PID, nil}
	if info.Args == nil {
		info.Args = []string{}
	}
	if !i.Running {
		info.Status, info.ExitCode = "exited", i.Exit.Code
	}
	return info
}

// find returns the terminal of an id.
func (ts *terminals) find(id string) (*terminal, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byID[strings.TrimPrefix(id, ptyPrefix)]; t != nil && strings.HasPrefix(id, ptyPrefix) {
		return t, nil
	}
	return nil, rest.Missing("pty", id)
}

// in returns the terminals that were made in a directory, the oldest first.
func (ts *terminals) in(dir string) (all []*terminal) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byID {
		if t.dir == dir {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *terminal) int { return a.Info().Started.Compare(b.Info().Started) })
	return all
}

func (ts *terminals) list(dir string) []ptyInfo {
	all := []ptyInfo{}
	for _, t := range ts.in(dir) {
		all = append(all, t.info())
	}
	return all
}

func (ts *terminals) create(c *call) (any, error) {
	var b ptyCreate
	if err := c.ReadJSON(&b); err != nil {
		return nil, err
	}
	processes, err := ts.Processes()
	if err != nil {
		return nil, err
	}
	if b.Command == "" {
		b.Command, b.Args = userShell(), []string{"-l"}
	}
	p, err := processes.Start(process.Spec{Command: b.Command, Args: b.Args, Dir: c.at(b.Cwd), Env: b.Env, User: ts.AgentUser, Terminal: true, Interactive: true})
	if err != nil {
		return nil, err
	}
	t := &terminal{Process: p, dir: c.directory, title: cmp.Or(b.Title, "Terminal "+strings.TrimPrefix(p.ID(), "proc_"))}
	ts.mu.Lock()
	maps.DeleteFunc(ts.byID, func(id string, _ *terminal) bool { // the server has forgotten it
		_, err := processes.Find(id)
		return err != nil
	})
	ts.byID[p.ID()] = t
	ts.mu.Unlock()
	info := t.info()
	ts.publish(t.dir, "pty.created", map[string]any{"info": info})
	return info, ts.Go(func() {
		select {
		case <-p.Done():
			ts.publish(t.dir, "pty.exited", map[string]any{"id": t.id(), "exitCode": exitStatus(p.Info())})
		case <-ts.Done():
		}
	})
}

// exitStatus returns the exit status of a process; 128 if a signal ended it.
func exitStatus(i process.Info) int {
	if i.Exit.Code == nil {
		return 128
	}
	return *i.Exit.Code
}

func (ts *terminals) change(c *call, t *terminal) (any, error) {
	var b ptyUpdate
	if err := c.ReadJSON(&b); err != nil {
		return nil, err
	}
	if size := b.Size; size != nil {
		if size.Rows == 0 || size.Cols == 0 {
			return nil, rest.InvalidField("size", "size must have rows and cols of at least 1")
		}
		if err := t.Resize(size.Cols, size.Rows); err != nil {
			return nil, err
		}
	}
	if b.Title != nil {
		t.mu.Lock()
		t.title = *b.Title
		t.mu.Unlock()
	}
	info := t.info()
	ts.publish(t.dir, "pty.updated", map[string]any{"info": info})
	return info, nil
}

// end kills a terminal's programs and forgets it.
func (ts *terminals) end(ctx context.Context, t *terminal) error {
	const patience = 5 * time.Second
	t.Kill(ctx, patience)
	ts.mu.Lock()
	delete(ts.byID, t.Process.ID())
	ts.mu.Unlock()
	processes, err := ts.Processes()
	if err != nil {
		return err
	}
	if err := processes.Remove(t.Process.ID()); err != nil && !errors.Is(err, process.ErrNotFound) {
		return err
	}
	ts.publish(t.dir, "pty.deleted", map[string]any{"id": t.id()})
	return nil
}

// endAll ends the terminals that were made in a directory.
func (ts *terminals) endAll(ctx context.Context, dir string) (err error) {
	for _, t := range ts.in(dir) {
		err = errors.Join(err, ts.end(ctx, t))
	}
	return err
}

// attend serves one client of the terminal. It sends the output from the cursor on as text,
// a count of the output's bytes after the first part of it, and then new output. The client
// sends what is typed.
func (t *terminal) attend(ctx context.Context, ws *rest.Socket, cursor int64) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t.show(ctx, ws, cursor)
		ws.Finish()
	})
	for {
		_, data, err := ws.Receive()
		if err != nil {
			break
		}
		const patience = 5 * time.Second
		typing, stop := context.WithTimeout(ctx, patience)
		_, err = t.Write(typing, data)
		stop()
		if err != nil {
			break
		}
	}
	cancel()
	_ = ws.Under.Close() // ends a send that waits for the client
	wg.Wait()
}

// show sends the terminal's output until the process has ended or the client has gone.
func (t *terminal) show(ctx context.Context, ws *rest.Socket, cursor int64) {
	var newest uint64 // of the output before the client came
	if last := t.Log().Entries(process.Query{Tail: new(1)}); len(last) > 0 {
		newest = last[0].Sequence
	}
	s := screen{ws: ws, skip: cursor, silent: cursor < 0}
	out := t.Log().Follow(0)
	reported := false
	for {
		if !reported && s.sequence >= newest {
			reported = true
			if s.sendPosition() != nil {
				return
			}
		}
		entries, gap, err := out.Next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = s.flush()
			}
			return
		}
		s.position += gap.Bytes
		for _, e := range entries {
			if s.silent = s.silent && e.Sequence <= newest; s.add(e) != nil {
				return
			}
		}
	}
}

// screen sends output to a client.
type screen struct {
	ws       *rest.Socket
	skip     int64 // the position before which nothing is sent
	silent   bool  // nothing is sent
	position int64 // bytes of the output
	sequence uint64
	rest     []byte // the beginning of a character
}

// add sends output.
func (s *screen) add(e process.Entry) error {
	data := e.Data
	if before := s.skip - s.position; before > 0 {
		data = data[min(before, int64(len(data))):]
	}
	s.position += int64(len(e.Data))
	s.sequence = e.Sequence
	if s.silent || len(data) == 0 {
		return nil
	}
	data = append(s.rest, data...)
	whole := wholeCharacters(data)
	s.rest = slices.Clone(data[whole:])
	return s.send(data[:whole])
}

// flush sends the beginning of a character that never ended.
func (s *screen) flush() error { return s.send(s.rest) }

func (s *screen) send(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	return s.ws.Send(websocket.TextMessage, []byte(strings.ToValidUTF8(string(text), "\uFFFD")))
}

// sendPosition sends the position, with which a client that comes again continues.
func (s *screen) sendPosition() error {
	text, err := json.Marshal(map[string]int64{"cursor": s.position})
	if err != nil {
		return err
	}
	return s.ws.Send(websocket.BinaryMessage, append([]byte{0}, text...))
}

// wholeCharacters returns how many bytes of text come before a character that is not complete.
func wholeCharacters(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if b := text[len(text)-back:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}

// userShell returns the shell of the server's user.
func userShell() string {
	for _, path := range []string{os.Getenv("SHELL"), "/bin/bash"} {
		if path != "" && exists(path) {
			return path
		}
	}
	return "/bin/sh"
}

// shells returns the shells of this machine, as /etc/shells lists them.
func shells() ([]shell, error) {
	all := []shell{}
	text, err := os.ReadFile("/etc/shells")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		path := strings.TrimSpace(line)
		if strings.HasPrefix(path, "/") && exists(path) {
			name := filepath.Base(path)
			all = append(all, shell{path, name, name != "fish" && name != "nu"})
		}
	}
	if len(all) == 0 {
		all = append(all, shell{"/bin/sh", "sh", true})
	}
	return all, nil
}

// exists reports whether a path can be reached.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
