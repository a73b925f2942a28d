// Package testpostgres starts Postgres servers for tests.
//
// [DSN] gives a test an empty schema of a server that all tests of a program share,
// which [Remove] ends. [Start] starts a server for a test that stops it.
// [Cluster.Proxy] starts a proxy that breaks connections. If Postgres is not installed,
// the test is skipped, unless REQUIRE_TOOLS is set.
package testpostgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deskhand/deskhand/internal/supervise"
)

// patience bounds each action of a server.
const patience = 30 * time.Second

// Cluster is a throw-away server that is reached by a socket in its folder.
type Cluster struct {
	bin, dir string
	as       *syscall.Credential // nil for the user who runs the tests
	settings []string

	mu   sync.Mutex
	stop func() // nil if it does not run
}

// shared is the server that tests share.
var shared struct {
	sync.Once
	*Cluster
	err error
}

// DSN returns the DSN of an empty schema of the shared server, which is dropped when the
// test ends.
func DSN(tb testing.TB) string {
	tb.Helper()
	return Shared(tb).Schema(tb)
}

// Shared returns the server that tests share.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	bin := binaries(tb)
	shared.Do(func() { shared.Cluster, shared.err = begin(bin, nil) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.Cluster
}

// Remove ends and removes the shared server. TestMain calls it at the end.
func Remove() {
	if shared.Cluster != nil {
		shared.remove()
	}
}

// Start starts a server for one test, with further settings ("fsync=on").
func Start(tb testing.TB, settings ...string) *Cluster {
	tb.Helper()
	c, err := begin(binaries(tb), settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.remove)
	return c
}

// DSN returns the DSN of the server's database.
func (c *Cluster) DSN() string {
	return "postgres://deskhand@/postgres?host=" + url.QueryEscape(c.dir)
}

// Schema returns the DSN of an empty schema, which is dropped when the test ends.
func (c *Cluster) Schema(tb testing.TB) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	dsn := c.DSN() + "&search_path=" + name
	tb.Cleanup(func() {
		if err := Exec(dsn, "drop schema if exists "+name+" cascade"); err != nil {
			tb.Error(err)
		}
	})
	return dsn
}

// Exec runs a statement on a connection of its own.
func Exec(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// Stop ends the server immediately, as in a crash.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// Restart starts a server again that was stopped, and waits until it answers.
func (c *Cluster) Restart(tb testing.TB) {
	tb.Helper()
	if err := c.start(); err != nil {
		tb.Fatal(err)
	}
}

func (c *Cluster) remove() {
	c.Stop()
	_ = os.RemoveAll(c.dir)
}

// binaries returns the folder of the newest Postgres that is installed.
func binaries(tb testing.TB) string {
	tb.Helper()
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian keeps them
	if path, err := exec.LookPath("initdb"); err == nil {
		all = append(all, path)
	}
	if len(all) == 0 {
		if os.Getenv("REQUIRE_TOOLS") != "" {
			tb.Fatal("initdb is missing: make test installs postgresql")
		}
		tb.Skip("initdb is missing")
	}
	slices.Sort(all)
	return filepath.Dir(all[len(all)-1])
}

// begin makes a cluster and starts it.
func begin(bin string, settings []string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "pg") // short, as the path of a socket must be
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, settings: settings}
	if err := c.make(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) make() (err error) {
	if os.Getuid() == 0 { // Postgres refuses to run as root
		u, err := supervise.LookupUser("postgres")
		if err != nil {
			u, err = supervise.LookupUser("daemon")
		}
		if err != nil {
			return err
		}
		c.as = u.Credential
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.bin+"/initdb", "-D", c.dir+"/data", "-A", "trust", "-U", "deskhand", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c.start()
}

// start starts the server and waits until it answers.
func (c *Cluster) start() error {
	output := new(strings.Builder)
	args := []string{"-D", c.dir + "/data", "-k", c.dir}
	for _, s := range append([]string{"listen_addresses=", "fsync=off"}, c.settings...) {
		args = append(args, "-c", s)
	}
	cmd := exec.CommandContext(context.Background(), c.bin+"/postgres", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, output, output
	started, ended := make(chan error, 1), make(chan struct{})
	go func() { // ends with the server
		defer close(ended)
		runtime.LockOSThread() // the child ends with the thread that started it
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.mu.Lock()
	c.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-ended
	}
	c.mu.Unlock()
	if err := c.answers(ended); err != nil {
		c.Stop()
		return fmt.Errorf("%w; postgres wrote %s", err, output)
	}
	return nil
}

// answers waits until the server does.
func (c *Cluster) answers(ended <-chan struct{}) error {
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := Exec(c.DSN(), "select 1")
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("postgres ended: %w", err)
		case <-deadline:
			return err
		case <-tick.C:
		}
	}
}
