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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deskhand/deskhand/internal/supervise"
)

// answerTime bounds the start of a server and a statement.
const answerTime = 30 * time.Second

// Cluster is a temporary server with a socket in its folder. Its methods are for one
// goroutine at a time.
type Cluster struct {
	bin, dir string
	as       *syscall.Credential // nil for the user who runs the tests
	settings []string
	group    *supervise.Group
	server   *supervise.Child // nil if it does not run
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
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
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
	if c.server != nil {
		_ = c.server.Signal(syscall.SIGQUIT) // fails if it has ended
		<-c.server.Done()
		c.server = nil
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
	_ = c.group.Close()
	_ = os.RemoveAll(c.dir)
}

// binaries returns the folder of the newest installed Postgres, or skips the test.
func binaries(tb testing.TB) string {
	tb.Helper()
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // on Debian
	if path, err := supervise.LookPath("initdb", nil); err == nil {
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
	group, err := supervise.NewGroup(supervise.GroupConfig{Owner: "test"})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg") // short, as the path of a socket must be
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, settings: settings, group: group}
	if err := c.make(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) make() error {
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
	initdb, err := c.run("initdb", "-A", "trust", "-U", "deskhand", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	<-initdb.Done()
	if end := initdb.Exit(); end.Code != 0 {
		return fmt.Errorf("initdb: %v\n%s", end, initdb.Tail())
	}
	return c.start()
}

// run starts a program of Postgres for the server's data.
func (c *Cluster) run(program string, args ...string) (*supervise.Child, error) {
	return c.group.Start(supervise.Spec{
		Path: filepath.Join(c.bin, program), Args: append([]string{"-D", c.dir + "/data"}, args...), Dir: c.dir, Credential: c.as,
	})
}

// start starts the server and waits until it answers.
func (c *Cluster) start() error {
	args := []string{"-k", c.dir}
	for _, s := range append([]string{"listen_addresses=", "fsync=off"}, c.settings...) {
		args = append(args, "-c", s)
	}
	server, err := c.run("postgres", args...)
	if err != nil {
		return err
	}
	c.server = server
	if err := c.awaitAnswer(); err != nil {
		c.Stop()
		return fmt.Errorf("%w; postgres wrote %s", err, server.Tail())
	}
	return nil
}

// awaitAnswer waits until the server answers.
func (c *Cluster) awaitAnswer() error {
	deadline := time.After(answerTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := Exec(c.DSN(), "select 1")
		if err == nil {
			return nil
		}
		select {
		case <-c.server.Done():
			return fmt.Errorf("postgres ended: %w", err)
		case <-deadline:
			return err
		case <-tick.C:
		}
	}
}
