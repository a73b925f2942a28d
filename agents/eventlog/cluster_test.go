package eventlog_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// cluster is a throw-away Postgres that is reached by a socket in its folder.
type cluster struct {
	dir  string
	as   *syscall.Credential // nil: who runs the tests
	stop func()              // nil: does not run

	settings []string
}

// common is the cluster that tests share, each in its own schema.
var common struct {
	sync.Once
	*cluster
	err error
}

// postgres returns the DSN of an empty schema.
func postgres(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("DESKHAND_TEST_POSTGRES")
	if dsn == "" {
		binaries(t)
		common.Do(func() { common.cluster, common.err = newCluster(t) })
		if common.err != nil {
			t.Fatal(common.err)
		}
		dsn = common.dsn()
	}
	u, err := url.Parse(dsn)
	must(t, err)
	q := u.Query()
	schema := "test_" + strings.ToLower(rnd())
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		if err := exec1(u.String(), "drop schema if exists "+schema+" cascade"); err != nil {
			t.Error(err)
		}
	})
	return u.String()
}

// exec1 runs a statement on a connection of its own.
func exec1(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// binaries returns the folder of the newest Postgres that is installed.
func binaries(t testing.TB) string {
	t.Helper()
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian keeps them
	must(t, err)
	if path, err := exec.LookPath("initdb"); err == nil {
		all = append(all, path)
	}
	if len(all) == 0 {
		if os.Getenv("REQUIRE_TOOLS") != "" {
			t.Fatal("initdb is missing: make test installs postgresql")
		}
		t.Skip("initdb is missing, and DESKHAND_TEST_POSTGRES names no database")
	}
	slices.Sort(all)
	return filepath.Dir(all[len(all)-1])
}

// newCluster makes a cluster, with further settings, and starts it.
func newCluster(t testing.TB, settings ...string) (*cluster, error) {
	t.Helper()
	bin := binaries(t)
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // short, as the path of a socket must be
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, settings: settings}
	if os.Getuid() == 0 { // Postgres refuses to run as root
		if c.as, err = unprivileged(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(bin+"/initdb", "-D", dir+"/data", "-A", "trust", "-U", "deskhand", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c, c.start(bin)
}

func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("there is no user that may run Postgres")
}

func (c *cluster) dsn() string {
	return "postgres://deskhand@/postgres?host=" + url.QueryEscape(c.dir)
}

// start starts the server and waits until it answers.
func (c *cluster) start(bin string) error {
	output := new(strings.Builder)
	args := []string{"-D", c.dir + "/data", "-k", c.dir}
	for _, s := range append([]string{"listen_addresses=", "fsync=off"}, c.settings...) {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(bin+"/postgres", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, output, output
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
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
	c.stop = func() { // at once, as in a crash
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-ended
		c.stop = nil
	}
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := exec1(c.dsn(), "select 1")
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("postgres ended: %s", output)
		case <-deadline:
			c.stop()
			return fmt.Errorf("%w; postgres wrote %s", err, output)
		case <-tick.C:
		}
	}
}

func (c *cluster) remove() {
	if c.stop != nil {
		c.stop()
	}
	_ = os.RemoveAll(c.dir)
}
