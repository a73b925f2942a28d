package sdktest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Config says which server to start.
type Config struct {
	// Binary is the server's path.
	Binary string

	// Reference says that it is the reference server, which cannot choose a port.
	Reference bool

	// Home becomes its HOME; all of its state is below. It must exist.
	Home string

	// Token is the server's token. Empty: Start makes one.
	Token string

	// Origins may call the server from pages, such as "http://127.0.0.1:8080".
	Origins []string

	// Args are further arguments of the command server.
	Args []string

	// Log receives its output, unless nil.
	Log io.Writer
}

// Server is a running server. The processes that it started end with it.
type Server struct {
	URL   string // "http://127.0.0.1:41234"
	Token string
	Home  string
	PID   int

	cfg   Config
	group *supervise.Group
	child *supervise.Child
}

// Start starts a server and returns when it answers. ctx bounds the start.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{Token: cmp.Or(cfg.Token, rand.Text()), Home: cfg.Home, cfg: cfg}
	port := 0
	if cfg.Reference {
		var err error
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	var err error
	// If this run is killed, the record lets a later one end its processes.
	groups := filepath.Join(os.TempDir(), fmt.Sprintf("deskhand-sdktest-%d", os.Getuid()))
	if _, err := supervise.Sweep(groups, nil); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if s.group, err = supervise.NewGroup(supervise.GroupConfig{Owner: "system", Dir: groups}); err != nil {
		return nil, err
	}
	if err := s.launch(ctx, port); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// launch starts the server's process. A port of zero lets it choose.
func (s *Server) launch(ctx context.Context, port int) (err error) {
	args := []string{"server", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--token", s.Token}
	for _, o := range s.cfg.Origins {
		args = append(args, "--cors-allow-origin", o)
	}
	s.child, err = s.group.Start(supervise.Spec{
		Path:   s.cfg.Binary,
		Args:   append(args, s.cfg.Args...),
		Env:    environ(s.cfg.Home),
		Dir:    s.cfg.Home,
		Output: s.cfg.Log,
		Grace:  10 * time.Second,
	})
	if err != nil {
		return err
	}
	s.PID = s.child.PID()
	return s.await(ctx, port)
}

// Reference reports whether it is the reference server.
func (s *Server) Reference() bool { return s.cfg.Reference }

// Crash kills the server's process and starts the server again with the same address,
// token and files. ctx bounds the start.
func (s *Server) Crash(ctx context.Context) error {
	at, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		return err
	}
	if err := s.child.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.child.Done()
	return s.launch(ctx, port)
}

// environ returns an environment without the user's desktop and directories.
func environ(home string) []string {
	return supervise.Environ(os.Environ(), "HOME="+home, "LANG=C.UTF-8", "LC_ALL", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY",
		"XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
		"XDG_CURRENT_DESKTOP", "DBUS_SESSION_BUS_ADDRESS", "BROWSER")
}

// address finds the URL in a whole line of what a server prints first.
var address = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)\b.*\n`)

// await returns when the server is healthy.
func (s *Server) await(ctx context.Context, port int) error {
	if port != 0 {
		s.URL = "http://127.0.0.1:" + strconv.Itoa(port)
	}
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.child.Done():
			return fmt.Errorf("server: %v: %s", s.child.Exit(), s.child.Tail())
		case <-ctx.Done():
			return fmt.Errorf("server not ready: %w: %s", ctx.Err(), s.child.Tail())
		}
		if found := address.FindStringSubmatch(s.child.Tail()); s.URL == "" && found != nil {
			s.URL = found[1]
		}
		if s.URL != "" && s.healthy(ctx) {
			return nil
		}
	}
}

// Request returns a request to the server, with body as JSON unless it is nil.
func (s *Server) Request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var payload io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func (s *Server) healthy(ctx context.Context) bool {
	req, err := s.Request(ctx, http.MethodGet, "/v1/health", nil)
	if err != nil {
		return false
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// ProcessorTime returns the time that the server used, and the processes that it started.
func (s *Server) ProcessorTime() (time.Duration, error) {
	u, err := s.child.Usage()
	return u.CPU, err
}

// Close ends the server and the processes that it started.
func (s *Server) Close() error { return s.group.Close() }

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
